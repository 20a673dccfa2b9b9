// SPDX-License-Identifier: MIT
#include "rules.h"

#include "chosen.h"

#include "lock.h"
#include "memory.h"
#include "modules.h"

#define SLOTS (1U << 16)

static struct rule *rules;
static uint32_t count;
static uint32_t clearings;

bool rules_init(void)
{
	rules = memory_private(SLOTS * sizeof *rules);
	return rules != NULL;
}

static uint32_t slot_of(uint64_t pc)
{
	return (uint32_t)((pc * 0x9e3779b97f4a7c15U) >> 40) & (SLOTS - 1);
}

// The trampoline that returns from a signal handler, by its code where no information marks it:
// rt_sigreturn is system call 15 on x86-64, 139 on AArch64.
static bool is_signal_return(uint64_t pc)
{
#ifdef __aarch64__
	const uint32_t *code = (const uint32_t *)(uintptr_t)pc;
	return !(pc & 3) && code[0] == 0xd2801168U && code[1] == 0xd4000001U;
#else
	static const uint8_t expected[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
	const uint8_t *code = (const uint8_t *)(uintptr_t)pc;
	for (size_t i = 0; i < sizeof expected; i++)
		if (code[i] != expected[i])
			return false;
	return true;
#endif
}

static struct rule derive(uint64_t pc, bool is_exact)
{
	struct unwind_info info;
	struct rule rule = {.kind = RULE_NONE};
	const uint64_t at = is_exact ? pc : pc - 1;
	if (module_at(at, &info)) {
		rule = cfi_rule(&info, at);
		if (rule.kind == RULE_NONE && is_signal_return(pc))
			rule.kind = RULE_SIGNAL;
	} else if (module_at(pc, &info)) {
		// The trampoline can begin its module or section: the byte before is another's.
		rule = cfi_rule(&info, pc);
	}
	if (rule.kind == RULE_NONE && module_at(pc, &info) && is_signal_return(pc))
		rule.kind = RULE_SIGNAL;
	rule.chosen = chosen_at(at);
	return rule;
}

static void clear(void)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		STORE_RELEASE(&rules[i].pc, 0);
	count = 0;
	clearings++;
}

void rules_clear(void)
{
	lock_take(LOCK_RULES);
	clear();
	lock_release(LOCK_RULES);
}

static NOINLINE struct rule rule_add(uint64_t pc, bool is_exact)
{
	const uint32_t before = LOAD(&clearings);
	struct rule rule = derive(pc, is_exact);
	lock_take(LOCK_RULES);
	if (count > SLOTS / 2)
		clear();
	uint32_t i = slot_of(pc);
	while (rules[i].pc && rules[i].pc != pc)
		i = (i + 1) & (SLOTS - 1);
	// What was derived before a clearing may be of a module that has gone.
	if (!rules[i].pc && before == clearings) {
		rules[i] = rule;
		STORE_RELEASE(&rules[i].pc, pc);
		count++;
	}
	lock_release(LOCK_RULES);
	return rule;
}

struct rule rule_for(uint64_t pc, bool is_exact)
{
	for (uint32_t i = slot_of(pc);; i = (i + 1) & (SLOTS - 1)) {
		const uint64_t found = LOAD_ACQUIRE(&rules[i].pc);
		if (LIKELY(found == pc)) {
			const struct rule rule = rules[i];
			// It may have been cleared, and taken for another, meanwhile.
			__atomic_thread_fence(__ATOMIC_ACQUIRE);
			if (LIKELY(LOAD(&rules[i].pc) == pc))
				return rule;
		}
		if (!found)
			return rule_add(pc, is_exact);
	}
}
