// What must not compile.
import { CellsError, createCellsDriver } from '@itookit/cells-driver';
// @ts-expect-error there is no such export
import { Transport } from '@itookit/cells-driver';
// @ts-expect-error there is no such entry
import {} from '@itookit/cells-driver/internal';
const driver = createCellsDriver();
// @ts-expect-error the alias is missing
driver.files({ endpoint: 'http://x' });
// @ts-expect-error the endpoint is a string
driver.harness({ endpoint: 7 });
// @ts-expect-error a number is no path
driver.files({ endpoint: 'http://x', alias: 'a' }).stat(7);
// @ts-expect-error ENOTHING is no code
new CellsError('ENOTHING', 'x').code === 'EIO';
// @ts-expect-error members of errors are read-only
new CellsError('EIO', 'x').code = 'EINVAL';
export { Transport };
