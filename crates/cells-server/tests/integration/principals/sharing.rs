//! Callers that use the same names, at the same time.

use super::*;

impl TestNode {
    fn create(&self, who: Who, path: &str, id: &str, content: String) -> RequestBuilder {
        let route = format!("/v1/fs/rw/content?path={path}");
        let request = self.ask(who.authorization().as_deref(), Method::PUT, &route, None);
        request.header("if-none-match", "*").header("x-operation-id", id).body(content)
    }

    fn operation(&self, who: Who, id: &str) -> RequestBuilder {
        self.ask(who.authorization().as_deref(), Method::GET, &format!("/v1/fs/rw/operations/{id}"), None)
    }

    fn cancel(&self, who: Who, id: &str) -> RequestBuilder {
        self.ask(who.authorization().as_deref(), Method::POST, &format!("/v1/fs/rw/operations/{id}/cancel"), None)
    }
}

#[tokio::test]
async fn the_same_operation_id_of_two_callers_names_two_writes() {
    let node = TestNode::start_with(shared).await;
    let both = [Who::Owner, Who::Writer];
    let writes = (0..40).map(|at| {
        let (who, id) = (both[at % 2], format!("id-{}", at / 2));
        let request = node.create(who, &format!("{who:?}-{id}"), &id, format!("{who:?}"));
        async move { (who, id, Reply::of(request).await) }
    });
    for (who, id, reply) in futures::future::join_all(writes).await {
        let receipt = reply.json();
        assert_eq!((reply.status, &receipt["outcome"]), (200, &json!("committed")), "{who:?} {id}");
        assert_eq!(Reply::of(node.operation(who, &id)).await.json(), receipt, "{who:?} {id}");
        let content = std::fs::read_to_string(node.path("rw").join(format!("{who:?}-{id}"))).unwrap();
        assert_eq!(content, format!("{who:?}"), "{id}");
    }

    // A reader sees the export, and none of these writes. Its cancel is a fence of its own.
    assert_eq!(Reply::of(node.operation(Who::Reader, "id-0")).await.refusal(), refusal(404, "OPERATION_UNKNOWN"));
    let fence = Reply::of(node.cancel(Who::Reader, "id-0")).await.json();
    assert_eq!(fence, json!({"outcome": "not-committed", "code": "ECANCELLED"}));
    let fence = Reply::of(node.cancel(Who::Reader, "id-later")).await.json();
    assert_eq!(fence, json!({"outcome": "not-committed", "code": "ECANCELLED"}));
    for who in both {
        assert_eq!(Reply::of(node.operation(who, "id-0")).await.json()["outcome"], "committed", "{who:?}");
        let later = Reply::of(node.create(who, &format!("{who:?}-later"), "id-later", String::new())).await;
        assert_eq!(later.status, 200, "{who:?}");
    }
    // The same id in another export is another write, too.
    let mkdir = json!({"action": "mkdir", "path": "made"});
    let request = node.ask(Who::Owner.authorization().as_deref(), Method::POST, "/v1/fs/open/mutate", Some(&mkdir));
    assert_eq!(Reply::of(request.header("x-operation-id", "id-0")).await.status, 200);
}

#[tokio::test]
async fn of_callers_that_want_the_same_name_one_gets_it() {
    let node = TestNode::start_with(shared).await;
    for round in 0..10 {
        let path = format!("wanted-{round}");
        let writes = [Who::Owner, Who::Writer, Who::Owner, Who::Writer].into_iter().enumerate().map(|(at, who)| {
            let request = node.create(who, &path, &format!("{round}-{at}"), at.to_string());
            async move { (at, Reply::of(request).await) }
        });
        let replies = futures::future::join_all(writes).await;
        let won: Vec<usize> = replies.iter().filter(|(_, reply)| reply.status == 200).map(|(at, _)| *at).collect();
        let lost = replies.iter().filter(|(_, reply)| reply.status == 412).count();
        let [winner] = won[..] else { panic!("{won:?}") };
        assert_eq!(lost, 3);
        assert_eq!(std::fs::read_to_string(node.path("rw").join(&path)).unwrap(), winner.to_string());
    }
}

#[tokio::test]
async fn the_same_request_id_of_two_callers_names_two_processes() {
    let node = TestNode::start_with(|config| {
        shared(config);
        config.principals[0].process = true;
        config.execution = cells_server::Execution::Host;
    })
    .await;
    let capabilities = Reply::of(node.get("/v1/capabilities")).await.json();
    let start = |word: &str| {
        json!({
            "serverId": capabilities["serverId"], "epoch": capabilities["processEpoch"], "requestId": "same",
            "command": "echo", "args": [word], "cwd": "/w", "timeoutMs": 60_000,
            "mounts": [{"alias": "rw", "path": "", "at": "/w", "access": "rw"}],
        })
    };
    let route = format!("/v1/processes/{}/same", capabilities["processEpoch"].as_str().unwrap());
    for (who, word) in [(Who::Owner, "one"), (Who::Writer, "two")] {
        let authorization = who.authorization();
        let ask = |method, route: &str, body: Option<&Value>| node.ask(authorization.as_deref(), method, route, body);
        assert_eq!(Reply::of(ask(Method::GET, &route, None)).await.refusal(), refusal(404, "PROCESS_UNKNOWN"));
        assert_eq!(Reply::of(ask(Method::POST, "/v1/processes", Some(&start(word)))).await.status, 200, "{who:?}");
        let status = loop {
            let status = Reply::of(ask(Method::GET, &route, None)).await.json();
            if status["state"] != "running" {
                break status;
            }
            tokio::task::yield_now().await;
        };
        assert_eq!(status["stdout"], json!(format!("{word}\n")), "{who:?}");
    }
}
