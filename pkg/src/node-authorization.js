// ESM face of the functions and the one error class that `require` gives as well.
export { authorizationHeaders, CellsError, sameAuthorization, validateAuthorization } from './authorization.cjs';
