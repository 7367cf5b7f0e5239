// The official TypeScript client, which knows nothing of Cells, uses the node as any MCP server.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Stage } from '../support/stage.js';

let stage;
before(async () => {
  stage = await Stage.start();
});
after(() => stage.close());

test('the official MCP client connects, lists the tools and calls one', async () => {
  const headers = { authorization: `Bearer ${stage.apiKey}` };
  const transport = new StreamableHTTPClientTransport(new URL(stage.node.mcpUrl), { requestInit: { headers } });
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === 'harness_profiles'));
  const result = await client.callTool({ name: 'harness_profiles', arguments: {} });
  assert.ok(!result.isError);
  const ours = await stage.driver().harness(stage.connection).profiles();
  assert.equal(result.structuredContent.epoch, ours.epoch);
  await client.close();
});

test('metadata that the official client discovered saves the driver a question', async () => {
  const mcp = { ...stage.connection, endpoint: stage.node.mcpUrl };
  let asked = 0;
  const driver = stage.driver((url, init) => (asked++, fetch(url, init)));
  const headers = { authorization: `Bearer ${stage.apiKey}`, 'content-type': 'application/json' };
  const request = {
    jsonrpc: '2.0',
    id: 1,
    method: 'server/discover',
    params: {
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  };
  const mirrored = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover', accept: 'application/json, text/event-stream' };
  const reply = await fetch(mcp.endpoint, { method: 'POST', headers: { ...headers, ...mirrored }, body: JSON.stringify(request) });
  const { result } = await reply.json();
  const descriptor = await driver.discover(mcp, { metadata: result._meta });
  assert.equal(asked, 0);
  assert.deepEqual(descriptor, await driver.discover(mcp));
});
