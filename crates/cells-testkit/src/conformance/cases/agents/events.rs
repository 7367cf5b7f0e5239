//! What is answered before an event stream (`cells-0.4.md` §2.3).

use serde_json::{Value, json};

use crate::conformance::{
    case::{Case, Step, post},
    declared::Need,
};

pub(super) fn streaming() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| Case::steps("events", &[Need::Events], name, steps);
    let stream = |version: u64, topics: Value| {
        post("/v1/events", json!({"version": version, "clientId": "conformance", "topics": topics}))
    };
    let topic = |id: &str| json!({"id": id, "kind": "harness", "profileId": "{profile}"});
    vec![
        case("another version is ECAPABILITY", vec![stream(2, json!([topic("a")])).refused(&[422], "ECAPABILITY")]),
        case(
            "1 to 128 topics have different ids",
            vec![
                stream(1, json!([])).refused(&[400], "EINVAL"),
                stream(1, json!([topic("a"), topic("a")])).refused(&[400], "EINVAL"),
                stream(1, json!((0..129).map(|number| topic(&format!("t{number}"))).collect::<Vec<_>>()))
                    .refused(&[400], "EINVAL"),
                stream(1, json!([topic("no id!")])).refused(&[400], "EINVAL"),
            ],
        ),
        case(
            "a body of another kind is refused",
            vec![
                stream(1, json!([topic("a")])).bytes("{").status(&[400]),
                stream(1, json!([topic("a")])).header("content-type", "text/plain").status(&[415]),
                stream(1, json!([topic("a")])).bytes(vec![b' '; 64 * 1024 + 1]).status(&[413]),
            ],
        ),
        case(
            "a wrong credential opens no stream",
            vec![
                stream(1, json!([topic("a")]))
                    .anonymous()
                    .header("authorization", "Bearer no-secret-of-this-node-0000")
                    .refused(&[401], "EACCES"),
            ],
        ),
    ]
}
