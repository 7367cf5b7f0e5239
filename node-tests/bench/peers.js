// The same jobs without the driver: fetch, dataloader, the official MCP client.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import DataLoader from 'dataloader';

const PROTOCOL = '2026-07-28';

/** The stat route for up to 256 paths. */
export async function rawStat({ endpoint, apiKey }, paths) {
  const reply = await fetch(`${endpoint}/v1/fs/export/stat`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ paths }),
  });
  return (await reply.json()).results.map((result) => result.stat);
}

/** The usual way to batch in JavaScript. */
export function statLoader(node) {
  return new DataLoader((paths) => rawStat(node, paths), { maxBatchSize: 256 });
}

/** Streams a file; how many bytes came. */
export async function rawContent({ endpoint, apiKey }, path) {
  const reply = await fetch(`${endpoint}/v1/fs/export/content?path=${path}`, {
    headers: { authorization: `Bearer ${apiKey}` },
  });
  let bytes = 0;
  for await (const piece of reply.body) bytes += piece.length;
  return bytes;
}

/** Loads an output page by page: parses the JSON, decodes base64, appends. */
export async function rawOutput({ mcpUrl, apiKey }, profileId, { epoch, requestId }) {
  const pages = [];
  for (let offset = 0; offset !== null; ) {
    const reply = await fetch(mcpUrl, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': PROTOCOL,
        'mcp-method': 'tools/call',
        'mcp-name': 'harness_command_output',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: offset,
        method: 'tools/call',
        params: {
          name: 'harness_command_output',
          arguments: { profileId, epoch, requestId, offset, limit: 65_536 },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': PROTOCOL,
            'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    });
    const page = (await reply.json()).result.structuredContent;
    pages.push(Buffer.from(page.data, 'base64'));
    offset = page.nextOffset;
  }
  return Buffer.concat(pages).length;
}

/** The official MCP client, connected. */
export async function connectSdk({ mcpUrl, apiKey }) {
  const client = new Client({ name: 'bench', version: '1' }, { versionNegotiation: { mode: { pin: PROTOCOL } } });
  const requestInit = { headers: { authorization: `Bearer ${apiKey}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(mcpUrl), { requestInit }));
  return client;
}
