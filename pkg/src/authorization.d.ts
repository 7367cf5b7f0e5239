export { CellsError } from './error.js';

/** Who a node says the caller is, and the version of everything granted to it (`authorization` of a descriptor). */
export interface AuthorizationSnapshot {
  /** Stable name of the principal. */
  readonly principalId: string;
  /** True exactly for the public principal. */
  readonly anonymous: boolean;
  /** Opaque version of the grants. Compare with `===` on type and value. */
  readonly revision: string | number;
}

/**
 * Checks a snapshot, for example one read from storage.
 *
 * @returns A frozen copy with exactly the three members.
 * @throws {CellsError} `EINVAL` when `value` is not a snapshot; the message names the member.
 */
export declare function validateAuthorization(value: unknown): AuthorizationSnapshot;

/**
 * Whether two snapshots are the same. Two absent ones are; one absent one is different.
 *
 * @throws {CellsError} `EINVAL` when a value that is there is not a snapshot.
 */
export declare function sameAuthorization(
  a: AuthorizationSnapshot | null | undefined,
  b: AuthorizationSnapshot | null | undefined,
): boolean;

/**
 * The headers that pin an HTTP request to a snapshot. The driver sends them by itself for a connection that carries
 * `authorization`; this is for a host's own requests.
 *
 * @throws {CellsError} `EINVAL` when `snapshot` is not one.
 */
export declare function authorizationHeaders(snapshot: AuthorizationSnapshot): {
  'x-fsagent-principal': string;
  'x-fsagent-principal-revision': string;
};
