// A CommonJS module in TypeScript.
import driver = require('@itookit/cells-driver');
import { validateAuthorization } from '@itookit/cells-driver/authorization';
const made: driver.CellsDriver = driver.createCellsDriver();
driver.default().then(() => made.dispose());
const revision: string | number = validateAuthorization({}).revision;
export { made, revision };
