#!/usr/bin/env bash
# Prints the folder of a Rust toolchain that compiles for wasm32-unknown-unknown, for RUSTUP_TOOLCHAIN:
#   RUSTUP_TOOLCHAIN="$(scripts/wasm-toolchain.sh)" cargo build --target wasm32-unknown-unknown
# The active toolchain if it has that target's std; else one made once from Debian's rustc-web
# packages (no system install), with the std built from rust-web-src. The log goes to stderr.
set -euo pipefail
exec 3>&1 1>&2
target=wasm32-unknown-unknown host=x86_64-unknown-linux-gnu
cache=${WASM_TOOLCHAIN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rust-wasm-toolchain}

if [ -z "${WASM_TOOLCHAIN_FORCE_DEBIAN:-}" ] &&
   compgen -G "$(rustc --print target-libdir --target $target)/libstd-*.rlib" >/dev/null; then
  rustc --print sysroot >&3; exit 0
fi
ready() { compgen -G "$cache/rustc-*/ready" | sort -V | tail -n 1; }
if [ -n "$(ready)" ]; then dirname "$(ready)" >&3; exit 0; fi

mkdir -p "$cache"; exec 9>"$cache/lock"; flock 9          # one builder at a time
if [ -n "$(ready)" ]; then dirname "$(ready)" >&3; exit 0; fi

SUDO=; [ "$(id -u)" = 0 ] || SUDO=sudo
$SUDO apt-get update -qq
dep() { apt-cache depends "$1" | awk -v re="^$2" '$1 == "Depends:" && $2 ~ re { print $2; exit }'; }
ver=$(apt-cache policy rustc-web | awk '/Candidate:/ { print $2 }')
std=$(dep libstd-rust-web-dev libstd-rust-web-)           # libstd-rust-web-1.96
llvm=$(dep "$std" libllvm)                                # libllvm22
lld=lld-${llvm#libllvm}                                   # lld-22
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
ln -s "$(rustup which --toolchain "${WASM_TOOLCHAIN_CARGO:-stable}" cargo)" "$new/bin/cargo"

if LD_LIBRARY_PATH="$new/lib" ldd "$new/bin/rustc" | grep 'not found'; then   # nothing, on the rust image
  $SUDO apt-get install -y -qq --no-install-recommends libz3-4 libedit2 libffi8 libxml2 libzstd1 zlib1g libstdc++6
fi

# The std, as rustc's own bootstrap builds it: its `dist` profile embeds bitcode, so LTO works.
src=$(echo "$work"/usr/src/rustc-*)
( cd "$src/library"
  unset RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET CARGO_TARGET_DIR
  RUSTUP_TOOLCHAIN=$new RUSTC_BOOTSTRAP=1 __CARGO_DEFAULT_LIB_METADATA=stablestd \
  RUSTFLAGS="-Zforce-unstable-if-unmarked --remap-path-prefix=$src=/rustc --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
  CARGO_PROFILE_DIST_DEBUG=0 CARGO_PROFILE_DIST_OPT_LEVEL=${WASM_STD_OPT:-3} \
  cargo build --locked --manifest-path sysroot/Cargo.toml --profile dist --target $target \
    --features panic-unwind,backtrace --target-dir "$work/std" )
mkdir -p "$new/lib/rustlib/$target/lib"
cp "$work/std/$target/dist/deps/"*.rlib "$new/lib/rustlib/$target/lib/"
rm -rf "$tc"; mv "$new" "$tc"; rm -rf "$work"; touch "$tc/ready"
echo "$tc" >&3
