// SPDX-License-Identifier: MIT
//
// Writes the completions of a shell from the table of options.
//
//   completions bash|zsh|fish
#include <stdio.h>
#include <string.h>

#include "cli/options.h"

static bool takes(const struct option_info *option, const char *argument)
{
	return option->argument != NULL && strcmp(option->argument, argument) == 0;
}

static void print_words(const struct option_info *option)
{
	for (size_t i = 0; option->words[i] != NULL; i++)
		printf("%s%s", i == 0 ? "" : " ", option->words[i]);
}

// All spellings of an option, with a separator between them.
static void print_spellings(const struct option_info *option, const char *separator)
{
	printf("--%s", option->name);
	if (option->other != NULL)
		printf("%s--%s", separator, option->other);
	if (option->letter != '\0')
		printf("%s-%c", separator, option->letter);
}

// ---- bash: bash-completion's functions are used where they are loaded

static void bash_case(const struct option_info *option)
{
	if (option->argument == NULL)
		return;
	fputs("\t", stdout);
	print_spellings(option, "|");
	fputs(")\n\t\t", stdout);
	if (option->words[0] != NULL && option->list) {
		// The words behind the last comma.
		fputs("local head=\"\"; [[ $cur == *,* ]] && head=\"${cur%,*},\"\n"
		      "\t\tmapfile -t COMPREPLY < <(compgen -P \"$head\" -W \"",
			stdout);
		print_words(option);
		fputs("\" -- \"${cur##*,}\")\n", stdout);
	} else if (option->words[0] != NULL) {
		fputs("mapfile -t COMPREPLY < <(compgen -W \"", stdout);
		print_words(option);
		fputs("\" -- \"$cur\")\n", stdout);
	} else if (takes(option, "PID")) {
		fputs("mapfile -t COMPREPLY < <(cd /proc && compgen -G \"$cur*\" | grep -x "
		      "'[0-9]*')\n",
			stdout);
	} else if (takes(option, "DIR")) {
		fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n",
			stdout);
	} else if (takes(option, "FILE") || takes(option, "OLD")) {
		fputs("compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n",
			stdout);
	} else {
		fputs("COMPREPLY=()\n", stdout);
	}
	fputs("\t\treturn ;;\n", stdout);
}

static void bash_write(void)
{
	struct option_info option;
	fputs("# bash completion for topleak\n\n"
	      "_topleak()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
	      "\t[[ $cur == \"=\" ]] && cur=\"\"\n"
	      "\t[[ $prev == \"=\" ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
	      "\tcase $prev in\n",
		stdout);
	for (size_t i = 0; options_info(i, &option); i++)
		bash_case(&option);
	fputs("\tesac\n\tif [[ $cur == -* ]]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"",
		stdout);
	for (size_t i = 0; options_info(i, &option); i++) {
		fputs(i == 0 ? "" : " ", stdout);
		print_spellings(&option, " ");
	}
	fputs("\" -- \"$cur\")\n\telse\n"
	      "\t\tcompopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	      "\tfi\n}\ncomplete -F _topleak topleak\n",
		stdout);
}

// ---- zsh

// What stands in a specification of _arguments: colons and brackets have a meaning there.
static void zsh_text(const char *text)
{
	for (; *text != '\0'; text++) {
		if (strchr(":[]'\\", *text) != NULL)
			fputs(*text == '\'' ? "'\\'" : "\\", stdout);
		putchar(*text);
	}
}

static void zsh_action(const struct option_info *option)
{
	if (option->argument == NULL)
		return;
	fputs(":", stdout);
	zsh_text(option->argument);
	fputs(":", stdout);
	if (option->words[0] != NULL) {
		// _values -s completes lists.
		fputs(option->list ? "_values -s , kind " : "(", stdout);
		print_words(option);
		fputs(option->list ? "" : ")", stdout);
	} else if (takes(option, "PID")) {
		fputs("_pids", stdout);
	} else if (takes(option, "DIR")) {
		fputs("_files -/", stdout);
	} else if (takes(option, "FILE") || takes(option, "OLD")) {
		fputs("_files", stdout);
	}
}

static void zsh_spec(const struct option_info *option, const char *spelling)
{
	// A long option takes its argument after = or a space, a short one also right behind it.
	const char *mark = option->argument == NULL ? "" : spelling[1] == '-' ? "=" : "+";
	printf(" \\\n\t'%s%s[", spelling, mark);
	zsh_text(option->help);
	fputs("]", stdout);
	zsh_action(option);
	fputs("'", stdout);
}

static void zsh_write(void)
{
	struct option_info option;
	fputs("#compdef topleak\n\n_arguments -s", stdout);
	for (size_t i = 0; options_info(i, &option); i++) {
		char spelling[64];
		snprintf(spelling, sizeof spelling, "--%s", option.name);
		zsh_spec(&option, spelling);
		if (option.other != NULL) {
			snprintf(spelling, sizeof spelling, "--%s", option.other);
			zsh_spec(&option, spelling);
		}
		if (option.letter != '\0') {
			snprintf(spelling, sizeof spelling, "-%c", option.letter);
			zsh_spec(&option, spelling);
		}
	}
	fputs(" \\\n\t'*:core:_files'\n", stdout);
}

// ---- fish

static void fish_spec(const struct option_info *option, const char *name, char letter)
{
	printf("complete -c topleak -l %s", name);
	if (letter != '\0')
		printf(" -s %c", letter);
	if (option->words[0] != NULL) {
		fputs(option->list ? " -x -a '(__fish_append , " : " -x -a '", stdout);
		print_words(option);
		fputs(option->list ? ")'" : "'", stdout);
	} else if (takes(option, "PID")) {
		fputs(" -x -a '(__fish_complete_pids)'", stdout);
	} else if (takes(option, "DIR")) {
		fputs(" -x -a '(__fish_complete_directories)'", stdout);
	} else if (takes(option, "FILE") || takes(option, "OLD")) {
		fputs(" -r -F", stdout);
	} else if (option->argument != NULL) {
		fputs(" -x", stdout);
	}
	fputs(" -d '", stdout);
	for (const char *text = option->help; *text != '\0'; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	fputs("'\n", stdout);
}

static void fish_write(void)
{
	struct option_info option;
	fputs("# fish completion for topleak\n", stdout);
	for (size_t i = 0; options_info(i, &option); i++) {
		fish_spec(&option, option.name, option.letter);
		if (option.other != NULL)
			fish_spec(&option, option.other, '\0');
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *shell;
		void (*write)(void);
	} shells[] = {{"bash", bash_write}, {"zsh", zsh_write}, {"fish", fish_write}};
	for (size_t i = 0; argc == 2 && i < sizeof shells / sizeof *shells; i++)
		if (strcmp(argv[1], shells[i].shell) == 0) {
			shells[i].write();
			return fflush(stdout) != 0;
		}
	fputs("usage: completions bash|zsh|fish\n", stderr);
	return 2;
}
