use super::*;
use proptest::prelude::*;

fn read(files: &[(&str, &str)]) -> Result<Definitions, DefinitionsError> {
    Definitions::read_with(|name| {
        let found = files.iter().find(|(file, _)| *file == name);
        found.map(|(_, text)| (*text).to_owned())
    })
}

fn one(text: &str) -> Definitions {
    read(&[("Kconfig", text)]).unwrap()
}

fn only<'a>(definitions: &'a Definitions, name: &str) -> &'a Definition {
    let symbol = definitions.symbol(name).unwrap();
    assert_eq!(symbol.definitions.len(), 1, "{name}");
    &symbol.definitions[0]
}

#[test]
fn a_definition_has_its_place_type_prompt_and_needs() {
    let definitions = one(concat!(
        "menu \"Top\"\n\tdepends on NET\n",
        "if BLOCK # only then\n",
        "config FOO\n\ttristate \"Foo # not a comment\" if EXPERT\n",
        "\tdepends on BAR && \\\n\t\t!BAZ\n",
        "\trange 12 25 if X\n\tselect QUX if A || B\n",
        "\tdefault y\n",
        "\thelp\n\t  config IN_HELP\n\n\t    bool \"no\"\n",
        "config HIDDEN\n\tdef_bool y\n",
        "endif\nendmenu\n",
        "config AFTER\n\tstring \"After\"\n",
    ));
    let foo = only(&definitions, "FOO");
    assert_eq!(foo.site.to_string(), "Kconfig:4");
    assert_eq!(foo.depends, ["NET", "BLOCK", "BAR && \t\t!BAZ"]);
    let prompt = foo.prompt.as_ref().unwrap();
    assert_eq!(prompt.text, "Foo # not a comment");
    assert_eq!(prompt.condition.as_deref(), Some("EXPERT"));
    assert_eq!(foo.ranges[0].text, "12 25");
    assert_eq!(
        definitions.symbol("FOO").unwrap().kind,
        Some(Type::Tristate)
    );
    assert!(definitions.symbol("IN_HELP").is_none());
    assert!(!definitions.symbol("HIDDEN").unwrap().has_prompt());
    assert!(definitions.symbol("QUX").is_none(), "selected, not defined");
    let selector = &definitions.symbols["QUX"].selected_by[0];
    assert_eq!(
        (selector.text.as_str(), selector.condition.as_deref()),
        ("FOO", Some("A || B"))
    );
    assert!(only(&definitions, "AFTER").depends.is_empty());
}

#[test]
fn members_of_a_choice_know_it() {
    let definitions = one(concat!(
        "choice\n\tprompt \"Preemption Model\"\n\tdepends on X\n\tdefault B\n",
        "config A\n\tbool \"a\"\n",
        "if Y\nconfig B\n\tbool \"b\"\nendif\n",
        "endchoice\nconfig C\n\tbool \"c\"\n",
    ));
    let index = definitions.symbol("B").unwrap().choice().unwrap();
    let choice = definitions.choice(index).unwrap();
    assert_eq!(choice.members, ["A", "B"]);
    assert_eq!(choice.prompt.as_deref(), Some("Preemption Model"));
    assert_eq!(only(&definitions, "B").depends, ["X", "Y"]);
    assert_eq!(definitions.symbol("C").unwrap().choice(), None);
}

#[test]
fn files_are_followed_in_all_four_ways() {
    let definitions = read(&[
        (
            "Kconfig",
            "source \"arch/$(SRCARCH)/Kconfig\"\nosource \"absent\"\nsource net/Kconfig\n",
        ),
        (
            "arch/x86/Kconfig",
            "config X86\n\tbool\n\trsource \"Kconfig.more\"\norsource \"absent\"\n",
        ),
        ("arch/x86/Kconfig.more", "config MORE\n\thex \"more\"\n"),
        ("net/Kconfig", "config NET\n\tbool \"net\"\n"),
    ])
    .unwrap();
    assert_eq!(
        only(&definitions, "MORE").site.to_string(),
        "arch/x86/Kconfig.more:1"
    );
    assert_eq!(definitions.len(), 3);
}

#[test]
fn a_missing_file_and_a_circle_are_errors_that_name_the_line() {
    let error = read(&[("Kconfig", "\nsource \"gone\"\n")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to read `gone`, which Kconfig:2 names"
    );
    let error = read(&[("Kconfig", "source \"a\"\n"), ("a", "source \"a\"\n")]).unwrap_err();
    assert!(
        matches!(error, DefinitionsError::Recursion { .. }),
        "{error}"
    );
}

#[test]
fn the_nearest_symbol_is_a_slip_or_a_longer_word() {
    let text = "config TIMERLAT_TRACER\n\tbool\nconfig TIMERLAT_TRACER_EXTRA\n\tbool\nconfig PREEMPT\n\tbool\n";
    let definitions = one(text);
    assert_eq!(definitions.nearest("TIMERLAT"), Some("TIMERLAT_TRACER"));
    assert_eq!(definitions.nearest("PREEMTP"), Some("PREEMPT"));
    assert_eq!(definitions.nearest("DRM_I915"), None);
}

#[test]
fn expressions_name_their_symbols_once() {
    assert_eq!(
        symbols_in("(A && !B) || C = \"D E\" || A != y || $(success,F) && G>=12"),
        ["A", "B", "C", "G"]
    );
    assert!(symbols_in("").is_empty());
}

proptest! {
    #[test]
    fn no_text_panics(text in "(?s)(config |choice\n|endchoice|menu \"|if |endif|\thelp\n|depends on |select |source \"x\"|prompt|range|bool \"|\\\\\n|[\"' \t\nA-C#$()]|.){0,60}", expression in ".{0,40}") {
        let _definitions = Definitions::read_with(|name| (name == "Kconfig").then(|| text.clone()));
        let _symbols = symbols_in(&expression);
        let _symbols = symbols_in(&text);
    }
}
