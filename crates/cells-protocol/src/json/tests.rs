use super::*;

fn object(text: &'static str) -> Object<'static> {
    Object::parse("it", text.as_bytes()).unwrap()
}

#[test]
fn a_member_is_read_as_its_type_or_refused_by_its_name() {
    type Read = fn(&mut Object<'_>) -> Result<String, Malformed>;
    fn show<T: std::fmt::Debug>(value: Result<T, Malformed>) -> Result<String, Malformed> {
        value.map(|value| format!("{value:?}"))
    }
    let readers: [(&str, Read); 11] = [
        ("string", |object| show(object.string("m"))),
        ("optional string", |object| show(object.optional_string("m"))),
        ("nullable string", |object| show(object.nullable_string("m"))),
        ("boolean", |object| show(object.boolean("m"))),
        ("flag", |object| show(object.flag("m"))),
        ("exactly true", |object| show(object.exactly_true("m"))),
        ("integer", |object| show(object.integer("m"))),
        ("optional integer", |object| show(object.optional_integer("m"))),
        ("lenient integer", |object| show(object.lenient_integer("m"))),
        ("array", |object| show(object.array("m").map(|elements| elements.len()))),
        ("value", |object| show(object.value("m"))),
    ];
    let expected = [
        ("{}", "- None - - false false - None None - Null"),
        (r#"{"m": null}"#, "! None None ! ! false ! None None ! Null"),
        (r#"{"m": "a"}"#, r#""a" Some("a") Some("a") ! ! false ! ! None ! String("a")"#),
        (r#"{"m": true}"#, "! ! ! true true true ! ! None ! Bool(true)"),
        (r#"{"m": 7}"#, "! ! ! ! ! false 7 Some(7) Some(7) ! Number(7)"),
        (r#"{"m": 7.0}"#, "! ! ! ! ! false ! ! None ! Number(7.0)"),
        (r#"{"m": -1}"#, "! ! ! ! ! false ! ! None ! Number(-1)"),
        (
            r#"{"m": 9007199254740991}"#,
            "! ! ! ! ! false 9007199254740991 Some(9007199254740991) Some(9007199254740991) ! Number(9007199254740991)",
        ),
        (r#"{"m": 9007199254740992}"#, "! ! ! ! ! false ! ! None ! Number(9007199254740992)"),
        (r#"{"m": []}"#, "! ! ! ! ! false ! ! None 0 Array []"),
        (r#"{"m": 1, "m": 1}"#, "2 2 2 2 2 2 2 2 2 2 2"),
        (r#"{"x": 1, "x": 2}"#, "- None - - false false - None None - Null"),
    ];
    for (text, expected) in expected {
        let read = |(_, read): &(&str, Read)| match read(&mut object(text)).map_err(|error| error.to_string()) {
            Ok(value) => value,
            Err(error) if error == "it: has no member `m`" => "-".to_owned(),
            Err(error) if error == "it: has a wrong member `m`" => "!".to_owned(),
            Err(error) if error == "it: has twice the member `m`" => "2".to_owned(),
            Err(error) => error,
        };
        assert_eq!(readers.iter().map(read).collect::<Vec<_>>().join(" "), expected, "{text}");
    }
}

#[test]
fn text_is_borrowed_unless_it_has_escapes() {
    let mut object = object(r#"{"plain": "abc", "escaped": "a\/c", "na\u006de": 1}"#);
    assert!(matches!(object.text("plain").unwrap(), std::borrow::Cow::Borrowed("abc")));
    assert_eq!(object.text("escaped").unwrap(), "a/c");
    assert_eq!(object.integer("name").unwrap(), 1);
}

#[test]
fn what_is_no_json_is_refused_with_its_place_and_nothing_else() {
    let deep = "[".repeat(200);
    for (text, expected) in [
        ("", "it: ends too early"),
        ("{\"PRIVATE\": ", "it: ends too early"),
        ("{\n PRIVATE}", "it: is not JSON at line 2 column 2"),
        ("[] PRIVATE", "it: is not JSON at line 1 column 4"),
        ("[\"\u{1}\"]", "it: is not JSON at line 1 column 3"),
        (deep.as_str(), "it: is not JSON at line 1 column 128"),
        ("[\"PRIVATE\"]", "it: is not an object"),
    ] {
        let error = Object::parse("it", text.as_bytes()).err().unwrap();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn a_detached_value_is_what_serde_json_reads() {
    let text = r#"{"a": [1, -2, 0.5, 18446744073709551615, 1e300, null, true, "\u00fc"], "b": {"c": 1, "c": 2}}"#;
    let value = Json::parse("it", text.as_bytes()).unwrap().into_value();
    assert_eq!(value, serde_json::from_str::<serde_json::Value>(text).unwrap());
    assert_eq!(value["b"], serde_json::json!({"c": 2}));
}

#[test]
fn json_for_javascript_holds_no_integer_that_it_would_change() {
    for (text, is_exact) in [
        (r#"{"a":[9007199254740991,-9007199254740991,1e300,0.5,null,"9007199254740992"]}"#, true),
        ("9007199254740992", false),
        ("-9007199254740992", false),
        (r#"{"a":[{"b":18446744073709551615}]}"#, false),
    ] {
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(to_vec(&value), serde_json::to_vec(&value).unwrap());
        assert_eq!(to_exact_vec(&value), is_exact.then(|| to_vec(&value)), "{text}");
    }
}
