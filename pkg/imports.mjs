// What the wasm may import: its own glue. A symbol that nothing defines, of C code or of a crate that is not made for wasm,
// would become an import of `env`, which only fails when a user loads the package.

/** Imports of any other module than the glue, as `module.name`. */
export function foreignImports(wasm) {
  const imports = WebAssembly.Module.imports(new WebAssembly.Module(wasm));
  return imports.filter(({ module }) => module !== './cells_driver_bg.js').map(({ module, name }) => `${module}.${name}`);
}
