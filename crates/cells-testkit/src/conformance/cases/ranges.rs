//! Downloads with ranges and conditions (`files-http.md` §4.5).

use crate::conformance::{
    case::{Case, Step, method, put, read},
    check::Check,
    declared::Need,
};

pub(super) fn cases() -> Vec<Case> {
    let case = |name, steps: Vec<Step>| {
        let first = put("a", "0123456789").create().committed().keep("revision", "/result/revision");
        Case::steps("files", &[Need::Write], name, std::iter::once(first).chain(steps))
    };
    let range = |range: &str| read("a").header("range", range);
    let whole = |step: Step| step.status(&[200]).check(Check::Bytes(b"0123456789".to_vec()));
    let part = |step: Step, bytes: &str, which: &str| {
        step.status(&[206]).check(Check::Bytes(bytes.into())).check(Check::Header("content-range", which.into()))
    };
    vec![
        case(
            "a download names its type, its size and that ranges work",
            vec![
                whole(read("a"))
                    .check(Check::Header("content-type", "application/octet-stream".into()))
                    .check(Check::Header("content-length", "10".into()))
                    .check(Check::Header("accept-ranges", "bytes".into())),
            ],
        ),
        case(
            "a range gives its bytes",
            vec![
                part(range("bytes=0-0"), "0", "bytes 0-0/10"),
                part(range("bytes=2-4"), "234", "bytes 2-4/10").check(Check::Header("content-length", "3".into())),
                part(range("bytes=7-"), "789", "bytes 7-9/10"),
                part(range("bytes=-3"), "789", "bytes 7-9/10"),
            ],
        ),
        case(
            "a range is cut to the file",
            vec![
                part(range("bytes=8-400"), "89", "bytes 8-9/10"),
                part(range("bytes=-400"), "0123456789", "bytes 0-9/10"),
                part(range("bytes=9-18446744073709551615"), "9", "bytes 9-9/10"),
            ],
        ),
        case(
            "a range outside of the file is 416 with the size",
            ["bytes=10-", "bytes=10-12", "bytes=4-2", "bytes=-0"]
                .map(|bad| {
                    range(bad)
                        .status(&[416])
                        .check(Check::Header("content-range", "bytes */10".into()))
                        .check(Check::Bytes(Vec::new()))
                })
                .to_vec(),
        ),
        case(
            "no range lies in an empty file",
            vec![
                put("empty", "").create().committed(),
                read("empty")
                    .header("range", "bytes=0-")
                    .status(&[416])
                    .check(Check::Header("content-range", "bytes */0".into())),
                read("empty").header("range", "bytes=-1").status(&[416]),
            ],
        ),
        case(
            "an unreadable range is EINVAL",
            ["bytes=", "bytes=-", "bytes=x-y", "bytes=1-y"].map(|bad| range(bad).refused(&[400], "EINVAL")).to_vec(),
        ),
        case(
            "several ranges or other units give everything",
            ["bytes=0-1,3-4", "lines=0-1"].map(|other| whole(range(other))).to_vec(),
        ),
        case(
            "If-Match must be the revision",
            vec![
                whole(read("a").header("if-match", "{revision}")),
                part(range("bytes=0-1").header("if-match", "{revision}"), "01", "bytes 0-1/10"),
                read("a").header("if-match", "\"another\"").refused(&[412], "ECONFLICT"),
            ],
        ),
        case(
            "If-Range decides whether the range counts",
            vec![
                part(range("bytes=0-1").header("if-range", "{revision}"), "01", "bytes 0-1/10"),
                whole(range("bytes=0-1").header("if-range", "\"another\"")),
            ],
        ),
        case("nothing is ever 304", vec![whole(read("a").header("if-none-match", "{revision}"))]),
        case(
            "HEAD has the headers of GET",
            vec![
                Step { method: reqwest::Method::HEAD, ..read("a") }
                    .status(&[200])
                    .check(Check::Header("content-length", "10".into()))
                    .check(Check::Bytes(Vec::new())),
            ],
        ),
        Case::steps(
            "files",
            &[Need::ReadOnly],
            "HEAD of what is missing is no success",
            [method(reqwest::Method::HEAD, "/v1/fs/{ro}/content").query("path", "{one}").status(&[404])],
        ),
    ]
}
