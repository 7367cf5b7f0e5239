// Measures the npm package in Node against what a program without it would do; `cargo xtask bench` runs it.
//
//   node main.js '{"cells": PROGRAM, "folder": FOLDER, "report": FILE}'
//
// `folder` has `export` and gets `node-state`.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createCellsDriver } from '@itookit/cells-driver';
import { LocalNode } from '../support/local-node.js';
import { compare, roundsOf } from './compare.js';
import { connectSdk, rawContent, rawOutput, rawStat, statLoader } from './peers.js';

const STATS = 10_000;
const DISTINCT_PATHS = 2_000;
const OUTPUT_BYTES = 32 * 1024 * 1024;
const CALLS = 300;

const { cells, folder, report } = JSON.parse(process.argv[2]);
const apiKey = 'the-key-of-a-node-that-lives-for-one-bench';
const exports = [`export=${join(folder, 'export')}:rw`];
const node = await LocalNode.start({ program: cells, exports, state: join(folder, 'node-state'), apiKey });
const raw = { endpoint: node.endpoint, mcpUrl: node.mcpUrl, apiKey };
const driver = createCellsDriver();
driver.setCredential('bench', apiKey);
const connection = { endpoint: node.endpoint, credentialRef: 'bench' };
const files = driver.files({ ...connection, alias: 'export' });
const harness = driver.harness(connection);

const rows = [await statBatch(), await contentRead(), await commandOutput(), await mcpCall()];
await writeFile(report, JSON.stringify(rows));
await driver.dispose();
await node.kill();
process.exit(0);

async function statBatch() {
  const paths = Array.from({ length: STATS }, (_, index) => {
    return `tree/file-${String(index % DISTINCT_PATHS).padStart(4, '0')}.txt`;
  });
  const sizes = async (stats) => (await Promise.all(stats)).reduce((sum, stat) => sum + stat.size, 0);
  const ours = () => sizes(paths.map((path) => files.stat(path)));
  const peer = () => {
    const loader = statLoader(raw); // a fresh one, because it caches
    return sizes(paths.map((path) => loader.load(path)));
  };
  const { value, peerValue } = await compare(ours, peer);

  // The same HTTP requests alone, one after the other as both send them, to tell what is left for the rest.
  const chunks = Array.from({ length: Math.ceil(DISTINCT_PATHS / 256) }, (_, index) => {
    return paths.slice(0, DISTINCT_PATHS).slice(index * 256, (index + 1) * 256);
  });
  const http = await roundsOf(() => Promise.all(chunks.map((chunk) => rawStat(raw, chunk))));
  return {
    name: 'stat_batch_node_vs_dataloader',
    value,
    unit: 'ms',
    peer: 'dataloader + fetch',
    peer_value: peerValue,
    aim: 1,
    note: `the ${chunks.length} HTTP requests alone take ${http.toFixed(1)} ms; left for driver and boundary ${(value - http).toFixed(1)} ms, for dataloader ${(peerValue - http).toFixed(1)} ms`,
  };
}

async function contentRead() {
  const ours = async () => {
    const { stream } = await files.readStream('large.bin');
    let bytes = 0;
    for await (const piece of stream) bytes += piece.length;
    return bytes;
  };
  const { value, peerValue } = await compare(ours, () => rawContent(raw, 'large.bin'));
  return { name: 'content_read_node_vs_fetch', value, unit: 'ms', peer: 'fetch', peer_value: peerValue, aim: 1.15 };
}

async function commandOutput() {
  const { profiles } = await harness.profiles();
  const profile = profiles[0].id;
  const { session } = await harness.create(profile, profiles[0].workspaces[0].id);
  const { outputRef } = await harness.command(profile, session.id, 'output', `${OUTPUT_BYTES} bench`);
  const ours = async () => {
    const output = await harness.loadCommandOutput(profile, outputRef, { maxBytes: outputRef.bytes });
    return output.byteLength;
  };
  const { value, peerValue } = await compare(ours, () => rawOutput(raw, profile, outputRef));
  const peer = 'sequential fetch calls, unchecked';
  return { name: 'command_output_node_vs_raw', value, unit: 'ms', peer, peer_value: peerValue, aim: 1.6 };
}

async function mcpCall() {
  const sdk = await connectSdk(raw);
  const ours = async () => {
    let profiles = 0;
    for (let call = 0; call < CALLS; call += 1) profiles += (await harness.profiles()).profiles.length;
    return profiles;
  };
  const peer = async () => {
    let profiles = 0;
    for (let call = 0; call < CALLS; call += 1) {
      const result = await sdk.callTool({ name: 'harness_profiles', arguments: {} });
      profiles += result.structuredContent.profiles.length;
    }
    return profiles;
  };
  const { value, peerValue } = await compare(ours, peer);
  await sdk.close();
  return {
    name: 'mcp_call_node_vs_sdk',
    value: value / CALLS,
    unit: 'ms a call',
    peer: '@modelcontextprotocol/client',
    peer_value: peerValue / CALLS,
    aim: 0.7,
  };
}
