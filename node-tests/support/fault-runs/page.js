// The page of the fault runs: `window.actor` is a caller.
import init, * as module from '@itookit/cells-driver';
import { Actor } from './actor.js';

await init();
window.actor = new Actor(module);
