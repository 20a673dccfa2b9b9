// SPDX-License-Identifier: MIT
//
// Run a target on files.
#include "fuzz.h"

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		static uint8_t bytes[1 << 20];
		if (file == NULL) {
			perror(argv[i]);
			return 1;
		}
		const size_t size = fread(bytes, 1, sizeof bytes, file);
		fclose(file);
		// Copied, so that a sanitizer sees where it ends.
		uint8_t *copy = malloc(size + 1);
		CHECK(copy != NULL);
		memcpy(copy, bytes, size);
		LLVMFuzzerTestOneInput(copy, size);
		free(copy);
	}
	return 0;
}
