use proptest::prelude::*;

use super::*;
use crate::proof::key::PrivateKey;

fn key(seed: u8) -> PublicKey {
    PrivateKey::from_seed(&[seed; 32]).public()
}

fn holder(seed: u8, role: Role, name: &str) -> Holder {
    Holder {
        role,
        name: name.to_owned(),
        key: key(seed),
        from: Date::constant(2026, 1, 1),
        until: None,
        revoked: None,
    }
}

/// Two rows as people write them: in one line and in several, with remarks.
fn two() -> String {
    format!(
        "# head\nkiln: 1\nkeys: # all of them\n  # the first\n  - {{role: builder, name: ci, key: {}, from: 2026-01-01}} # flow\n\
         \x20 - name: rb # block\n    role: rebuilder\n    from: \"2026-02-01\" # since\n    key: {}\n# end",
        key(1),
        key(2),
    )
}

#[test]
fn a_file_reads_and_each_twin_does_not() {
    let roles = parse("r", &two()).unwrap();
    assert_eq!(roles.holders[0], holder(1, Role::Builder, "ci"));
    assert_eq!(roles.holders[1].from, Date::constant(2026, 2, 1));
    for (from, to, said) in [
        (
            "role: builder",
            "role: bulder",
            "r:5:12: keys.0.role: expected one of `builder`, `rebuilder`, `canary`, `fleet`, `approver`, `node`, found `bulder`; did you mean `builder`?",
        ),
        (
            "from: 2026-01-01",
            "from: 2026-02-30",
            "keys.0.from: expected a day such as 2027-03-01, found `2026-02-30`",
        ),
        (
            "from: 2026-01-01",
            "from: 2026-01-01, until: 2026-01-01",
            "keys.0.until: it would never count",
        ),
        (
            "from: 2026-01-01",
            "from: 2026-01-01, revoked: {on: 2026-01-01}",
            "keys.0.revoked: missing key `reason` (why)",
        ),
        (
            "name: rb",
            "name: ci",
            "r:7:11: keys.1.role: `ci` is a builder on line 5",
        ),
        (
            &key(2).to_string(),
            &key(1).to_string(),
            "r:9:10: keys.1.key: this key stands twice, first on line 5",
        ),
        (
            "=, from",
            ", from",
            "keys.0.key: expected an ed25519 public key",
        ),
        (
            "name: ci",
            "name: CI",
            "keys.0.name: expected a holder's name",
        ),
        ("kiln: 1", "kiln: 2", "a newer kiln is needed"),
    ] {
        let text = two();
        assert!(text.contains(from), "{from}");
        let error = parse("r", &text.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(said), "{from} -> {to}: {error}");
    }
}

#[test]
fn a_name_may_have_two_keys_of_one_role() {
    let text = two().replacen("name: rb", "name: ci", 1);
    let text = text.replacen("role: rebuilder", "role: builder", 1);
    assert_eq!(parse("r", &text).unwrap().holders.len(), 2);
}

#[test]
fn a_key_goes_to_the_end_and_the_rest_stays() {
    let new = append("r", None, &holder(3, Role::Node, "n1")).unwrap();
    assert!(new.starts_with(HEAD), "{new}");
    assert_eq!(
        parse("r", &new).unwrap().holders,
        [holder(3, Role::Node, "n1")]
    );

    let mut third = holder(3, Role::Node, "n1");
    third.until = Some(Date::constant(2027, 1, 1));
    let text = append("r", Some(&two()), &third).unwrap();
    let added = format!(
        "{}\n  - role: node\n    name: n1\n    key: {}\n    from: \"2026-01-01\"\n    until: \"2027-01-01\"\n",
        two(),
        key(3)
    );
    assert_eq!(text, added);
    // What does not go with the others is refused for that, not for the layout.
    let error = append("r", Some(&two()), &holder(1, Role::Node, "n1")).unwrap_err();
    assert!(matches!(error, EditError::Invalid(_)), "{error}");
    let error = append("r", Some(&two()), &holder(3, Role::Node, "ci")).unwrap_err();
    assert!(error.to_string().contains("`ci` is a builder"), "{error}");
    for text in [
        "keys: []\nkiln: 1\n",
        "{kiln: 1, keys: []}\n",
        "kiln: 1\nkeys: [\n]\n",
    ] {
        let error = append("r", Some(text), &third).unwrap_err();
        assert!(matches!(error, EditError::Form { .. }), "{text}: {error}");
    }
}

#[test]
fn an_end_and_a_revocation_change_one_row() {
    let until = Date::constant(2026, 9, 1);
    let text = end("r", &two(), &key(1).id(), until).unwrap();
    assert_eq!(
        text,
        two().replacen("{role:", "{until: \"2026-09-01\", role:", 1)
    );
    // Again: the day is replaced.
    let later = end("r", &text, &key(1).id(), Date::constant(2026, 9, 2)).unwrap();
    assert_eq!(later, text.replace("2026-09-01", "2026-09-02"));

    let text = end("r", &two(), &key(2).id(), until).unwrap();
    assert_eq!(
        text,
        two().replacen("# since\n", "# since\n    until: \"2026-09-01\"\n", 1)
    );
    let revocation = Revocation {
        on: Date::constant(2026, 8, 1),
        reason: "its \"disk\" was sold: badly".to_owned(),
    };
    let text = revoke("r", &text, &key(2).id(), &revocation).unwrap();
    let roles = parse("r", &text).unwrap();
    assert_eq!(roles.holders[1].revoked, Some(revocation.clone()));
    assert_eq!(roles.holders[1].until, Some(until));
    assert!(text.ends_with("# end"), "{text}");

    let error = revoke("r", &text, &key(9).id(), &revocation).unwrap_err();
    assert!(matches!(error, EditError::NoKey { .. }), "{error}");
    let never = end("r", &two(), &key(1).id(), Date::constant(2025, 1, 1)).unwrap_err();
    assert!(
        never.to_string().contains("it would never count"),
        "{never}"
    );
}

/// A file with rows of either form, remarks, blank lines and any order of keys.
fn files() -> impl Strategy<Value = String> {
    let row = (any::<bool>(), any::<bool>(), 0usize..4, "[ -~]{0,12}");
    prop::collection::vec(row, 0..5).prop_map(|rows| {
        let mut text = String::from("kiln: 1\nkeys:\n");
        if rows.is_empty() {
            text = text.replace("keys:", "keys: []");
        }
        for (index, (flow, quoted, turn, remark)) in rows.into_iter().enumerate() {
            let seed = u8::try_from(index).unwrap_or_default() + 10;
            let mark = if quoted { "\"" } else { "" };
            let mut fields = [
                "role: rebuilder".to_owned(),
                format!("name: {mark}n{index}{mark}"),
                format!("key: {mark}{}{mark}", key(seed)),
                format!("from: {mark}2026-01-01{mark}"),
            ];
            fields.rotate_left(turn);
            let row = if flow {
                format!("- {{{}}} # {remark}\n", fields.join(", "))
            } else {
                format!(
                    "- {} # {remark}\n\n",
                    fields.join(&format!(" # {remark}\n  # own\n  "))
                )
            };
            text.push_str(&row);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every change keeps each line that was there, or a line that it is a part of, and gives the
    /// facts that were asked for and no others.
    #[test]
    fn changes_keep_what_people_wrote(text in files(), which in 0u8..5) {
        let before = parse("r", &text).unwrap();
        let until = Date::constant(2027, 5, 5);
        let revocation = Revocation { on: until, reason: "it was lost at sea".to_owned() };
        let wanted = holder(1, Role::Builder, "ci");
        let key = key(which + 10).id();
        let mut after = before.clone();
        let known = after.holders.iter_mut().find(|holder| holder.key.id() == key);
        let changed = if let Some(holder) = known {
            holder.until = Some(until);
            holder.revoked = Some(revocation.clone());
            let text = end("r", &text, &key, until).unwrap();
            revoke("r", &text, &key, &revocation).unwrap()
        } else {
            after.holders.push(wanted.clone());
            append("r", Some(&text), &wanted).unwrap()
        };
        prop_assert_eq!(parse("r", &changed).unwrap(), after);
        let mut lines = changed.lines();
        for line in text.lines().filter(|line| *line != "keys: []") {
            let key = line.trim_start_matches("- {");
            prop_assert!(lines.any(|now| now.ends_with(key)), "{line:?} is gone:\n{changed}");
        }
    }

    /// Whatever stands there, an edit gives an answer, and a good one reads back.
    #[test]
    fn no_text_panics(
        at in 0usize..500,
        cut in 0usize..40,
        put in "[a-z0-9:{}\\[\\],\"'#&*! \\n\\t-]{0,12}",
    ) {
        let good = two();
        let start = at.min(good.len());
        let cut = (start + cut).min(good.len());
        let text = format!("{}{put}{}", &good[..start], &good[cut..]);
        let until = Date::constant(2027, 5, 5);
        for edited in [
            append("r", Some(&text), &holder(3, Role::Node, "n1")),
            end("r", &text, &key(1).id(), until),
            end("r", &text, &key(2).id(), until),
        ]
        .into_iter()
        .flatten()
        {
            prop_assert!(parse("r", &edited).is_ok());
        }
    }
}
