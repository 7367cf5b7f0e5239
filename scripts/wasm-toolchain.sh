#!/usr/bin/env bash
# Prints the folder of a Rust toolchain that compiles for wasm32-unknown-unknown, for RUSTUP_TOOLCHAIN:
#   RUSTUP_TOOLCHAIN="$(scripts/wasm-toolchain.sh)" cargo build --target wasm32-unknown-unknown
# It is the first of these that can be had; the log goes to stderr:
#   1. the active toolchain, when it has the std of that target;
#   2. the active toolchain, after `rustup target add`;
#   3. one made from Debian's rustc-web packages, with the std built from rust-web-src. It is unpacked into a cache
#      folder, so nothing that the system or rustup installed is replaced.
# WASM_TOOLCHAIN_FORCE_DEBIAN=1 takes the third at once. WASM_TOOLCHAIN_CACHE names another cache folder.
set -euo pipefail
exec 3>&1 1>&2
target=wasm32-unknown-unknown
host=$(rustc -vV | awk '/^host:/ { print $2 }')
cache=${WASM_TOOLCHAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rust-wasm-toolchain}

installed() { compgen -G "$(rustc --print target-libdir --target $target)/libstd-*.rlib" >/dev/null; }
if [ -z "${WASM_TOOLCHAIN_FORCE_DEBIAN:-}" ]; then
  if installed || { command -v rustup && rustup target add $target && installed; }; then
    rustc --print sysroot >&3; exit 0
  fi
fi

cargo=$(rustup which cargo 2>/dev/null || command -v cargo)
finish() {                                                # the cargo of the day: the link may outlive its toolchain
  local tc; tc=$(dirname "$1")
  ln -sfn "$cargo" "$tc/bin/cargo"
  echo "$tc" >&3; exit 0
}
ready() { compgen -G "$cache/rustc-*/ready" | sort -V | tail -n 1; }
if [ -n "$(ready)" ]; then finish "$(ready)"; fi

for tool in apt-get apt-cache dpkg-deb flock; do
  command -v $tool >/dev/null || { echo "no $tool: the Debian route needs a Debian system"; exit 1; }
done
mkdir -p "$cache"; exec 9>"$cache/lock"; flock 9          # one builder at a time
if [ -n "$(ready)" ]; then finish "$(ready)"; fi

SUDO=; [ "$(id -u)" = 0 ] || SUDO='sudo -n'
$SUDO apt-get update -qq
dep() { apt-cache depends "$1" | awk -v re="^$2" '$1 == "Depends:" && $2 ~ re { print $2; exit }'; }
ver=$(apt-cache policy rustc-web | awk '/Candidate:/ { print $2 }')
if [ -z "$ver" ] || [ "$ver" = '(none)' ]; then echo "no package rustc-web in the package lists"; exit 1; fi
std=$(dep libstd-rust-web-dev libstd-rust-web-)           # such as libstd-rust-web-1.96
llvm=$(dep "$std" libllvm)                                # such as libllvm22
lld=lld-${llvm#libllvm}                                   # such as lld-22
tc=$cache/rustc-${ver//[^A-Za-z0-9.]/_}
work=$cache/build; rm -rf "$work"; mkdir -p "$work"       # a fixed path: the same std every time
echo "wasm toolchain: rustc-web $ver, $std, $llvm, $lld -> $tc"

( cd "$work" && apt-get -qq -o APT::Sandbox::User=root download \
    rustc-web rust-web-clippy libstd-rust-web-dev "$std" "$llvm" "$lld" rust-web-src )
unpack() { dpkg-deb --fsys-tarfile "$work/$1"_*.deb | tar -x -C "$work" --wildcards "$2"; rm "$work/$1"_*.deb; }
unpack rustc-web './usr/bin/*'
unpack rust-web-clippy './usr/bin/*'
unpack libstd-rust-web-dev './usr/lib/rustlib/*'
unpack "$std" './usr/lib/*'
unpack "$llvm" './usr/lib/*'
unpack "$lld" './usr/lib/*/bin/lld'
unpack rust-web-src './usr/src/rustc-*/library/*'

new=$work/tc; mkdir -p "$new/bin" "$new/lib"              # the layout that rustup's proxies expect
mv "$work"/usr/bin/{rustc,rustdoc,cargo-clippy,clippy-driver} "$new/bin/"
mv "$work"/usr/lib/*-linux-gnu/*.so* "$work/usr/lib/rustlib" "$new/lib/"
mkdir -p "$new/lib/rustlib/$host/bin"
mv "$work"/usr/lib/llvm-*/bin/lld "$new/lib/rustlib/$host/bin/rust-lld"
ln -s "$cargo" "$new/bin/cargo"

if LD_LIBRARY_PATH="$new/lib" ldd "$new/bin/rustc" | grep 'not found'; then
  $SUDO apt-get install -y -qq --no-install-recommends libz3-4 libedit2 libffi8 libxml2 libzstd1 zlib1g libstdc++6
fi

# The std, as rustc's own bootstrap builds it: its `dist` profile embeds bitcode, so LTO works.
src=$(echo "$work"/usr/src/rustc-*)
( cd "$src/library"
  unset RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CARGO_TARGET_DIR
  PATH=$new/bin:$PATH LD_LIBRARY_PATH=$new/lib RUSTUP_TOOLCHAIN=$new RUSTC_BOOTSTRAP=1 __CARGO_DEFAULT_LIB_METADATA=stablestd \
  RUSTFLAGS="-Zforce-unstable-if-unmarked --remap-path-prefix=$src=/rustc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
  CARGO_PROFILE_DIST_DEBUG=0 CARGO_PROFILE_DIST_OPT_LEVEL=${WASM_STD_OPT:-3} \
  cargo build --locked --manifest-path sysroot/Cargo.toml --profile dist --target $target \
    --features panic-unwind,backtrace --target-dir "$work/std" )
mkdir -p "$new/lib/rustlib/$target/lib"
cp "$work/std/$target/dist/deps/"*.rlib "$new/lib/rustlib/$target/lib/"
rm -rf "$tc"; mv "$new" "$tc"; rm -rf "$work"; touch "$tc/ready"
finish "$tc/ready"
