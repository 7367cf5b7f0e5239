// A node that answers what a test says, over real connections.
import { createServer } from 'node:http';
import { once } from 'node:events';

/** Answers as a node with the writable export `notes`, unless `answer(asked, response)` gives true. */
export class ScriptedNode {
  /** What it was asked: `{method, path, query, headers, body}`. */
  asked = [];
  /** The requests whose client left before they were answered. */
  left = [];

  static async start(answer = () => false) {
    const node = new ScriptedNode();
    node.server = createServer(async (request, response) => {
      const { pathname: path, searchParams: query } = new URL(request.url, 'http://x');
      const pieces = [];
      const asked = { method: request.method, path, query, headers: request.headers };
      response.on('close', () => {
        if (!response.writableEnded) node.left.push(asked);
      });
      for await (const piece of request) pieces.push(piece);
      asked.body = Buffer.concat(pieces);
      node.asked.push(asked);
      if (!answer(asked, response)) ordinary(asked, response);
    });
    node.server.listen(0, '127.0.0.1');
    await once(node.server, 'listening');
    node.endpoint = `http://127.0.0.1:${node.server.address().port}`;
    return node;
  }

  /** The requests whose path ends with `end`. */
  for(end) {
    return this.asked.filter(({ path }) => path.endsWith(end));
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}

/** Answers with JSON. */
export function reply(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  return true;
}

function ordinary({ method, path, body }, response) {
  if (path === '/v1/exports') {
    const notes = { alias: 'notes', access: 'rw', nameSemantics: 'source', strongRevision: true };
    return reply(response, 200, { version: 1, exports: [notes] });
  }
  if (path === '/v1/fs/notes/stat') {
    const stat = (asked) => {
      if (asked === 'gone') return { stat: null };
      if (asked === 'denied') return { error: 'EACCES' };
      return { stat: { kind: 'file', size: Buffer.byteLength(asked), revision: '"a:1"' } };
    };
    return reply(response, 200, { results: JSON.parse(body).paths.map(stat) });
  }
  if (path === '/v1/fs/notes/content' && method === 'PUT') {
    return reply(response, 200, { outcome: 'committed', result: { kind: 'file', size: body.length } });
  }
  if (path === '/v1/fs/notes/content') return response.end('0123456789');
  if (path.endsWith('/cancel')) return reply(response, 200, { outcome: 'not-committed', code: 'ECANCELLED' });
  return reply(response, 404, { code: 'ENOENT' });
}
