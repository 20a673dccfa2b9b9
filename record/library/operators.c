// SPDX-License-Identifier: MIT
//
// All forms of C++'s operators new and delete. Those of libstdc++ and libc++ call malloc, where
// they are seen: here they are only passed on. An allocator that has its own (jemalloc, tcmalloc,
// mimalloc) calls nothing that could be seen: then they are malloc and free, and its own are asked
// only to say that there is no memory.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base.h"
#include "real.h"

void *memalign(size_t alignment, size_t size);

enum way {
	WAY_UNKNOWN,
	WAY_MALLOC,
	WAY_PASS_ON,
};

struct form {
	const char *name;
	void *function;
	enum way way;
};

static NOINLINE enum way form_find(struct form *form)
{
	Dl_info of_function, of_malloc;
	void *allocator, *function = real_function(form->name);
	memcpy(&allocator, &real.malloc, sizeof allocator);
	enum way way = function ? WAY_PASS_ON : WAY_MALLOC;
	if (function && allocator && dladdr(function, &of_function) &&
		dladdr(allocator, &of_malloc) && of_function.dli_fbase == of_malloc.dli_fbase)
		way = WAY_MALLOC;
	STORE(&form->function, function);
	STORE_RELEASE(&form->way, way);
	return way;
}

static inline bool passes_on(struct form *form)
{
	enum way way = LOAD_ACQUIRE(&form->way);
	if (UNLIKELY(way == WAY_UNKNOWN))
		way = form_find(form);
	return way == WAY_PASS_ON;
}

static NOINLINE void no_memory(void)
{
	static const char text[] = "topleak-record: no memory for operator new\n";
	(void)!write(2, text, sizeof text - 1);
	abort();
}

// What an operator new does: NAME(PARAMETERS), called with ARGUMENTS; ALLOCATE is what malloc does
// for it. Types: of the real function's parameters.
#define OPERATOR_NEW(NAME, PARAMETERS, ARGUMENTS, ALLOCATE, THROWS)                                \
	EXPORT void *NAME PARAMETERS                                                               \
	{                                                                                          \
		static struct form form = {.name = #NAME};                                         \
		void *(*function)PARAMETERS;                                                       \
		if (!passes_on(&form)) {                                                           \
			void *block = ALLOCATE;                                                    \
			if (LIKELY(block != NULL) || (!form.function && !(THROWS)))                \
				return block;                                                      \
			if (!form.function)                                                        \
				no_memory();                                                       \
		}                                                                                  \
		memcpy(&function, &form.function, sizeof function);                                \
		return function ARGUMENTS;                                                         \
	}

#define OPERATOR_DELETE(NAME, PARAMETERS, ARGUMENTS)                                               \
	EXPORT void NAME PARAMETERS                                                                \
	{                                                                                          \
		static struct form form = {.name = #NAME};                                         \
		void(*function) PARAMETERS;                                                        \
		if (!passes_on(&form)) {                                                           \
			free(block);                                                               \
			return;                                                                    \
		}                                                                                  \
		memcpy(&function, &form.function, sizeof function);                                \
		function ARGUMENTS;                                                                \
	}

// Names as the Itanium C++ ABI, section 5.1, makes them. size_t is unsigned long.
#define NEW_FORMS(LETTERS)                                                                         \
	OPERATOR_NEW(LETTERS##m, (size_t size), (size), malloc(size), true)                        \
	OPERATOR_NEW(LETTERS##mRKSt9nothrow_t, (size_t size, const void *nothrow),                 \
		(size, nothrow), malloc(size), false)                                              \
	OPERATOR_NEW(LETTERS##mSt11align_val_t, (size_t size, size_t alignment),                   \
		(size, alignment), memalign(alignment, size), true)                                \
	OPERATOR_NEW(LETTERS##mSt11align_val_tRKSt9nothrow_t,                                      \
		(size_t size, size_t alignment, const void *nothrow), (size, alignment, nothrow),  \
		memalign(alignment, size), false)

#define DELETE_FORMS(LETTERS)                                                                      \
	OPERATOR_DELETE(LETTERS##Pv, (void *block), (block))                                       \
	OPERATOR_DELETE(LETTERS##Pvm, (void *block, size_t size), (block, size))                   \
	OPERATOR_DELETE(                                                                           \
		LETTERS##PvRKSt9nothrow_t, (void *block, const void *nothrow), (block, nothrow))   \
	OPERATOR_DELETE(                                                                           \
		LETTERS##PvSt11align_val_t, (void *block, size_t alignment), (block, alignment))   \
	OPERATOR_DELETE(LETTERS##PvmSt11align_val_t, (void *block, size_t size, size_t alignment), \
		(block, size, alignment))                                                          \
	OPERATOR_DELETE(LETTERS##PvSt11align_val_tRKSt9nothrow_t,                                  \
		(void *block, size_t alignment, const void *nothrow), (block, alignment, nothrow))

NEW_FORMS(_Znw)
NEW_FORMS(_Zna)
DELETE_FORMS(_Zdl)
DELETE_FORMS(_Zda)
