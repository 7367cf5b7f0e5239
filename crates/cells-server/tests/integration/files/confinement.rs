//! Nothing outside an export can be read, listed or described, by whatever path.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Reply, TestNode, refusal};

#[tokio::test]
async fn no_path_leads_out_of_an_export() {
    let node = TestNode::start().await;
    fs::create_dir(node.path("outside")).unwrap();
    fs::write(node.path("outside/secret"), "secret").unwrap();
    for alias in ["rw", "ro"] {
        let at = |name: &str| node.path(alias).join(name);
        fs::create_dir(at("dir")).unwrap();
        fs::write(at("dir/file"), "file").unwrap();
        symlink(node.path("outside"), at("absolute")).unwrap();
        symlink("../outside", at("relative")).unwrap();
        symlink("../../outside/secret", at("dir/leaf")).unwrap();
        symlink("dir", at("inside")).unwrap();
        symlink("/proc/self/root", at("magic")).unwrap();
        symlink("/proc/self/cwd", at("dir/cwd")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();

        let denied = || refusal(403, "EACCES");
        let invalid = || refusal(400, "EINVAL");
        let long = "x/".repeat(2048) + "x";
        let link = serde_json::json!("symlink");
        for (path, kind, refused) in [
            // Kind that stat reports; null means that the item failed like the other two routes.
            ("absolute", link.clone(), denied()),
            ("absolute/secret", serde_json::Value::Null, denied()),
            ("relative", link.clone(), denied()),
            ("relative/secret", serde_json::Value::Null, denied()),
            ("dir/leaf", link.clone(), denied()),
            ("inside", link.clone(), denied()),
            ("inside/file", serde_json::Value::Null, denied()),
            ("magic", link.clone(), denied()),
            ("magic/etc/passwd", serde_json::Value::Null, denied()),
            ("dir/cwd", link.clone(), denied()),
            ("dir/cwd/Cargo.toml", serde_json::Value::Null, denied()),
            ("dangling", link, denied()),
            ("..", serde_json::Value::Null, invalid()),
            ("../outside", serde_json::Value::Null, invalid()),
            ("../outside/secret", serde_json::Value::Null, invalid()),
            ("dir/../../outside/secret", serde_json::Value::Null, invalid()),
            ("dir/..", serde_json::Value::Null, invalid()),
            (".", serde_json::Value::Null, invalid()),
            ("./dir", serde_json::Value::Null, invalid()),
            ("dir/./file", serde_json::Value::Null, invalid()),
            ("/etc/passwd", serde_json::Value::Null, invalid()),
            ("//etc/passwd", serde_json::Value::Null, invalid()),
            ("dir//file", serde_json::Value::Null, invalid()),
            ("dir/", serde_json::Value::Null, invalid()),
            ("dir\\file", serde_json::Value::Null, invalid()),
            ("..\\outside", serde_json::Value::Null, invalid()),
            ("dir/file\0", serde_json::Value::Null, invalid()),
            ("C:/dir", serde_json::Value::Null, invalid()),
            ("c:file", serde_json::Value::Null, invalid()),
            (".itookit-upload-00", serde_json::Value::Null, invalid()),
            ("dir/.itookit-upload-00", serde_json::Value::Null, invalid()),
            (long.as_str(), serde_json::Value::Null, invalid()),
        ] {
            let what = format!("{alias} {path:.40?}");
            assert_eq!(Reply::of(node.content(alias, path)).await.refusal(), refused, "content {what}");
            assert_eq!(Reply::of(node.entries(alias, path, None)).await.refusal(), refused, "entries {what}");
            let item = &Reply::of(node.stat(alias, &[path])).await.json()["results"][0];
            assert_eq!(item["stat"]["kind"], kind, "stat {what}");
            if kind.is_null() {
                assert_eq!(item["error"], refused.1, "stat {what}");
            }
        }
    }
}

#[tokio::test]
async fn a_path_is_decoded_once() {
    let node = TestNode::start().await;
    fs::write(node.path("rw/%2e%2e"), "plain name").unwrap();
    fs::write(node.path("rw/a+b c"), "plus and space").unwrap();
    for (query, body) in
        [("path=%252e%252e", "plain name"), ("path=a%2Bb+c", "plus and space"), ("path=a%2Bb%20c", "plus and space")]
    {
        let reply = Reply::of(node.get(&format!("/v1/fs/rw/content?{query}"))).await;
        assert_eq!((reply.status, &reply.body[..]), (200, body.as_bytes()), "{query}");
    }
    let dots = Reply::of(node.get("/v1/fs/rw/content?path=%2e%2e")).await;
    assert_eq!(dots.refusal(), refusal(400, "EINVAL"));
    let not_text = Reply::of(node.get("/v1/fs/rw/content?path=%ff")).await;
    assert_ne!(not_text.status, 200, "a name that is not UTF-8 cannot be asked for");
}
