#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// What a heap snapshot of V8 says: count, bytes and class, as topleak names them. Elements, properties and tables of an
// object count to it.
//
//   snapshot.js FILE
'use strict';

const {snapshot, nodes, edges, strings} = JSON.parse(require('fs').readFileSync(process.argv[2], 'utf8'));
const meta = snapshot.meta;
const [nodeFields, edgeFields] = [meta.node_fields, meta.edge_fields];
const [nodeTypes, edgeTypes] = [meta.node_types[0], meta.edge_types[0]];
const field = name => nodeFields.indexOf(name);
const [TYPE, NAME, SIZE, EDGES] = ['type', 'name', 'self_size', 'edge_count'].map(field);
const types = new Map();
const parts = new Set(['elements', 'properties', 'table', 'backing_store']);
let edge = 0;
for (let node = 0; node < nodes.length; node += nodeFields.length) {
	const type = nodeTypes[nodes[node + TYPE]];
	let name = strings[nodes[node + NAME]], size = nodes[node + SIZE];
	const is_object = type === 'object' || type === 'closure' || type === 'regexp';
	for (let i = 0; i < nodes[node + EDGES]; i++, edge += edgeFields.length) {
		const to = edges[edge + 2];
		if (is_object && edgeTypes[edges[edge]] === 'internal' && parts.has(strings[edges[edge + 1]]))
			size += nodes[to + SIZE];
	}
	if (type === 'closure')
		name = 'function ' + (name === '' ? '(anonymous)' : name);
	else if (['string', 'concatenated string', 'sliced string', 'number', 'symbol', 'bigint'].includes(type))
		name = type;
	else if (type === 'regexp')
		name = 'RegExp';
	else if (type !== 'object')
		continue;
	const row = types.get(name) || [0, 0];
	types.set(name, [row[0] + 1, row[1] + size]);
}
for (const [name, [count, bytes]] of types)
	console.log(`${count}\t${bytes}\t${name}`);
