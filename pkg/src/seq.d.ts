import type { FileStat } from './files.js';
import type { OperationOptions } from './harness.js';
import type { FileMutationOptions } from './storage.js';
import type { HttpTransport } from './transport.js';

/** A value that JSON can hold. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/** All entries of a SeqFile. */
export interface SeqSnapshot {
  /** The revision that the next transaction must name; `null` when the file does not exist, and on read-only exports. */
  revision: string | null;
  /** Ordered by the bytes of their keys. */
  entries: SeqEntry[];
}

/** One entry of a SeqFile. */
export interface SeqEntry {
  /** Its key: 1 to 1024 bytes without NUL. */
  key: string;
  /** Its value. */
  value: JsonValue;
}

/** One change of a SeqFile: adds an entry or replaces its value; or removes it, if there is one. */
export type SeqChange = { action: 'set'; key: string; value: JsonValue } | { action: 'delete'; key: string };

/** SeqFiles of one export: small tables of keys and JSON values, each in one file whose name ends in `.seq`. */
export interface SeqClient {
  /**
   * All entries of a SeqFile; none, and no revision, when it does not exist.
   *
   * @throws {CellsError} `EINVAL` when the name does not end in `.seq`; `EIO` when the file is no SeqFile; `EFBIG` above
   *   4 MiB of entries; `ECAPABILITY` on a node without SeqFiles.
   */
  snapshot(path: string, options?: OperationOptions): Promise<SeqSnapshot>;
  /**
   * Makes the changes in order, all of them or none. The result describes the new file; its revision is the one to expect
   * next.
   *
   * @param expectedRevision That of the last snapshot or transaction; `null` = the SeqFile does not exist.
   * @throws {CellsError} `ECONFLICT` when the SeqFile has another revision; `EINVAL`, and nothing is sent, for more than 256
   *   changes, for keys that are empty, longer than 1024 bytes or hold a NUL, and for changes of more than 512 KiB in all;
   *   `EROFS` on a read-only export. Outcomes are those of {@link FileMutations}.
   */
  transaction(
    path: string,
    expectedRevision: string | null,
    changes: readonly SeqChange[],
    options?: FileMutationOptions,
  ): Promise<FileStat>;
}

/**
 * SeqFiles of one export, through a transport.
 *
 * @example
 * const seq = new HttpSeqClient(transport, 'notes');
 * const { revision } = await seq.snapshot('meta/info.seq');
 * await seq.transaction('meta/info.seq', revision, [{ action: 'set', key: 'title', value: 'Plan' }]);
 */
export declare class HttpSeqClient implements SeqClient {
  /** Sends nothing. It ends with the transport. @throws {CellsError} `EINVAL` for an alias that is none. */
  constructor(transport: HttpTransport, alias: string);
  /** See {@link SeqClient.snapshot}. */
  snapshot(path: string, options?: OperationOptions): Promise<SeqSnapshot>;
  /** See {@link SeqClient.transaction}. */
  transaction(
    path: string,
    expectedRevision: string | null,
    changes: readonly SeqChange[],
    options?: FileMutationOptions,
  ): Promise<FileStat>;
}
