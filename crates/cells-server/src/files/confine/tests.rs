use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Both ways of resolving must say the same.
const RESOLVERS: [Resolver; 2] = [Resolver::Kernel, Resolver::Walk];

fn root(path: &Path, resolver: Resolver) -> Root {
    let root = Root::open(path).unwrap();
    assert_eq!(root.resolver, Resolver::Kernel, "this kernel has openat2");
    Root { resolver, ..root }
}

fn path(text: &str) -> ExportPath {
    ExportPath::parse(text).unwrap()
}

/// `outside/secret`, and `export` with a file, a directory and links of every kind.
fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let at = |name: &str| tree.path().join(name);
    fs::create_dir_all(at("outside")).unwrap();
    fs::create_dir_all(at("export/dir/deep")).unwrap();
    fs::write(at("outside/secret"), "secret").unwrap();
    fs::write(at("export/file"), "file").unwrap();
    fs::write(at("export/dir/deep/leaf"), "leaf").unwrap();
    symlink("../outside/secret", at("export/up")).unwrap();
    symlink(at("outside"), at("export/absolute")).unwrap();
    symlink("dir", at("export/inside")).unwrap();
    symlink("missing", at("export/dangling")).unwrap();
    symlink("loop", at("export/loop")).unwrap();
    symlink("/proc/self/root", at("export/magic")).unwrap();
    symlink("/proc/self/fd/0", at("export/dir/magic")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("export/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    tree
}

#[test]
fn nothing_outside_is_reached_and_no_link_is_followed() {
    use FileType::{Directory, Fifo, RegularFile, Symlink};
    let tree = tree();
    type Opened = Result<(), Errno>;
    let cases: &[(&str, Result<FileType, Errno>, Opened, Opened)] = &[
        // path, stat, open_directory, open_file
        ("", Ok(Directory), Ok(()), Err(Errno::NOTSUP)),
        ("file", Ok(RegularFile), Err(Errno::NOTDIR), Ok(())),
        ("dir", Ok(Directory), Ok(()), Err(Errno::NOTSUP)),
        ("dir/deep/leaf", Ok(RegularFile), Err(Errno::NOTDIR), Ok(())),
        ("pipe", Ok(Fifo), Err(Errno::NOTDIR), Err(Errno::NOTSUP)),
        ("missing", Err(Errno::NOENT), Err(Errno::NOENT), Err(Errno::NOENT)),
        ("missing/x", Err(Errno::NOENT), Err(Errno::NOENT), Err(Errno::NOENT)),
        ("file/x", Err(Errno::NOTDIR), Err(Errno::NOTDIR), Err(Errno::NOTDIR)),
        ("pipe/x", Err(Errno::NOTDIR), Err(Errno::NOTDIR), Err(Errno::NOTDIR)),
        ("up", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("absolute", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("absolute/secret", Err(Errno::LOOP), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("inside", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("inside/deep", Err(Errno::LOOP), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("dangling", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("loop", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("loop/x", Err(Errno::LOOP), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("magic", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("magic/etc/passwd", Err(Errno::LOOP), Err(Errno::LOOP), Err(Errno::LOOP)),
        ("dir/magic", Ok(Symlink), Err(Errno::LOOP), Err(Errno::LOOP)),
    ];
    for resolver in RESOLVERS {
        let root = root(&tree.path().join("export"), resolver);
        for (text, stat, directory, file) in cases {
            let what = format!("{resolver:?} {text:?}");
            assert_eq!(root.stat(&path(text)).map(|stat| kind(&stat)), *stat, "stat {what}");
            assert_eq!(root.open_directory(&path(text)).map(drop), *directory, "open_directory {what}");
            assert_eq!(root.open_file(&path(text)).map(drop), *file, "open_file {what}");
        }
    }
}

#[test]
fn proc_as_an_export_gives_no_way_out() {
    for resolver in RESOLVERS {
        let root = root(Path::new("/proc/self"), resolver);
        for text in ["root/etc/passwd", "cwd/Cargo.toml", "fd/0/x", "exe/x"] {
            assert_eq!(root.open_file(&path(text)).map(drop), Err(Errno::LOOP), "{resolver:?} {text}");
        }
        assert_eq!(root.stat(&path("root")).map(|stat| kind(&stat)), Ok(FileType::Symlink), "{resolver:?}");
    }
}

#[test]
fn a_directory_that_is_swapped_for_a_link_never_leads_outside() {
    let tree = tree();
    let at = |name: &str| tree.path().join(name);
    fs::create_dir(at("export/swap")).unwrap();
    fs::write(at("export/swap/secret"), "inside").unwrap();
    symlink(at("outside"), at("link")).unwrap();
    let exchange = || {
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, at("export/swap"), rustix::fs::CWD, at("link"), exchange).unwrap();
    };
    for resolver in RESOLVERS {
        let root = root(&at("export"), resolver);
        let stop = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    exchange();
                    exchange();
                }
            });
            let seen: BTreeSet<String> = (0..20_000).map(|_| read(&root, "swap/secret")).collect();
            stop.store(true, Ordering::Relaxed);
            seen
        });
        assert!(!seen.contains("secret"), "{resolver:?}: {seen:?}");
        assert_eq!(read(&root, "swap/secret"), "inside", "{resolver:?}: swapped back at the end");
    }
}

/// The text of a file, or the error.
fn read(root: &Root, text: &str) -> String {
    let read = || {
        let (file, stat) = root.open_file(&path(text))?;
        let mut bytes = vec![0; usize::try_from(stat.stx_size).unwrap()];
        rustix::io::pread(&file, &mut bytes, 0)?;
        Ok::<_, Errno>(String::from_utf8(bytes).unwrap())
    };
    read().unwrap_or_else(|errno| errno.to_string())
}

#[test]
fn a_kind_that_the_list_of_a_directory_does_not_say_is_looked_up() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("file"), "").unwrap();
    fs::create_dir(directory.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("folder", directory.path().join("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    let root = Root::open(directory.path()).unwrap();
    for (name, expected) in [
        ("file", FileType::RegularFile),
        ("folder", FileType::Directory),
        ("link", FileType::Symlink),
        ("socket", FileType::Socket),
        ("gone", FileType::Unknown),
    ] {
        assert_eq!(child_kind(root.as_fd(), name, FileType::Unknown), expected, "{name}");
        assert_eq!(child_kind(root.as_fd(), name, FileType::Fifo), FileType::Fifo, "{name}: what is said counts");
    }
}
