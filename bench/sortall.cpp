// SPDX-License-Identifier: MIT
//
// The obvious way to find the most frequent words, as the yardstick for a better one: read the
// whole file, sort all its 64-bit words, group equal ones, sort the groups, print the first N.
//
//   sortall N FILE
//
// In C++, not C, because std::sort inlines the comparison; qsort would make a baseline that is
// three times slower and too easy to beat.

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <vector>

struct Group {
	std::uint64_t word;
	std::uint64_t count;
};

// Bytes after the last whole word are left out.
static std::vector<std::uint64_t> read_words(const char *path)
{
	std::vector<std::uint64_t> words(std::filesystem::file_size(path) / sizeof(std::uint64_t));
	std::FILE *file = std::fopen(path, "rb");
	if (!file ||
		std::fread(words.data(), sizeof words[0], words.size(), file) != words.size()) {
		std::perror(path);
		std::exit(1);
	}
	std::fclose(file);
	return words;
}

static std::vector<Group> group_words(const std::vector<std::uint64_t> &sorted)
{
	std::vector<Group> groups;
	for (const auto word : sorted) {
		if (groups.empty() || groups.back().word != word)
			groups.push_back({word, 0});
		groups.back().count++;
	}
	return groups;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		std::fprintf(stderr, "usage: %s N FILE\n", argv[0]);
		return 2;
	}
	auto words = read_words(argv[2]);
	std::sort(words.begin(), words.end());
	auto groups = group_words(words);
	std::sort(groups.begin(), groups.end(), [](const Group &a, const Group &b) {
		return a.count != b.count ? a.count > b.count : a.word < b.word;
	});
	groups.resize(std::min(groups.size(), std::size_t{std::strtoull(argv[1], nullptr, 0)}));
	for (const auto &group : groups)
		std::printf("0x%016" PRIx64 " : %" PRIu64 "\n", group.word, group.count);
	return std::fflush(stdout) ? 1 : 0;
}
