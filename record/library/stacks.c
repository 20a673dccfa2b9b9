// SPDX-License-Identifier: MIT
#include "stacks.h"

#include "capture.h"
#include "lock.h"
#include "memory.h"
#include "modules.h"
#include "table.h"

#define FIRST_SLOTS (1U << 14)

struct record_stack *stacks;
static struct record_node *nodes;
static struct table *stack_table, *node_table;

bool stacks_init(void)
{
	stacks = memory_start(RECORD_STACKS);
	nodes = memory_start(RECORD_NODES);
	stack_table = table_create(FIRST_SLOTS);
	node_table = table_create(FIRST_SLOTS);
	if (!stack_table || !node_table || !memory_grow(RECORD_STACKS, 1) ||
		!memory_grow(RECORD_NODES, 1))
		return false;
	memory_section(RECORD_STACKS)->used = memory_section(RECORD_NODES)->used = 1;
	return true;
}

// The hash of a child of a node: the same addresses after another module took their place are
// another node.
static uint64_t node_hash(uint32_t parent, uint64_t pc)
{
	const uint64_t generation = LOAD(&modules_generation);
	return mix(pc ^ ((uint64_t)parent + 1) * 0x9e3779b97f4a7c15U ^ generation << 48) | 1;
}

static uint32_t node_add(uint32_t parent, uint64_t pc, uint64_t hash)
{
	struct unwind_info info;
	const uint32_t module = module_at(pc - 1, &info);
	lock_take(LOCK_STACKS);
	uint64_t node = table_find(&node_table, hash);
	struct record_section *section = memory_section(RECORD_NODES);
	if (!node && memory_grow(RECORD_NODES, section->used + 1)) {
		node = section->used;
		nodes[node] = (struct record_node){.pc = pc, .parent = parent, .module = module};
		STORE_RELEASE(&section->used, node + 1);
		if (!table_add(&node_table, node, hash, node))
			node = 0;
	}
	lock_release(LOCK_STACKS);
	return (uint32_t)node;
}

static NOINLINE uint32_t stack_add(
	uint64_t hash, uint32_t flags, const struct frame *frames, uint32_t count)
{
	uint32_t node = 0;
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t pc = frames[i].pc + frames[i].is_exact,
			       of_node = node_hash(node, pc);
		const uint32_t parent = node;
		node = (uint32_t)table_find(&node_table, of_node);
		if (!node)
			node = node_add(parent, pc, of_node);
		if (!node) {
			ADD(&header->stacks_cut, 1);
			node = parent;
			break;
		}
	}
	lock_take(LOCK_STACKS);
	uint64_t stack = table_find(&stack_table, hash);
	struct record_section *section = memory_section(RECORD_STACKS);
	if (!stack && memory_grow(RECORD_STACKS, section->used + 1)) {
		stack = section->used;
		stacks[stack] = (struct record_stack){
			.hash = hash, .node = node, .flags = flags, .first = memory_now()};
		STORE_RELEASE(&section->used, stack + 1);
		if (!table_add(&stack_table, stack, hash, stack))
			stack = 0;
	}
	lock_release(LOCK_STACKS);
	return (uint32_t)stack;
}

uint32_t stack_for(uint64_t hash, uint32_t flags, const struct frame *frames, uint32_t count)
{
	hash = mix(hash ^ (uint64_t)flags << 32 ^ (uint64_t)LOAD(&modules_generation) << 40) | 1;
	const uint64_t stack = table_find(&stack_table, hash);
	if (LIKELY(stack))
		return (uint32_t)stack;
	return stack_add(hash, flags, frames, count);
}
