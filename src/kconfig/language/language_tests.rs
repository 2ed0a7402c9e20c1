use super::{Ask, Memory, Model, ParseError, Problem, Said, Tree};

pub(super) fn memory(text: &str) -> Memory {
    Memory::of(text)
}

pub(super) fn tree(text: &str) -> Tree {
    Tree::parse(&memory(text), "Kconfig").unwrap()
}

fn problem(text: &str) -> (u32, Problem) {
    match Tree::parse(&memory(text), "Kconfig") {
        Err(ParseError::Text { line, problem, .. }) => (line, problem),
        other => panic!("expected a problem, found {other:?}"),
    }
}

/// The lines that `config` becomes, and the warnings of reading it.
pub(super) fn resolved(kconfig: &str, config: &str) -> (String, Vec<String>) {
    let mut model = Model::new(tree(kconfig));
    let warnings = model.read(config);
    let texts = warnings
        .iter()
        .map(|w| format!("{}: {}", w.line, w.text))
        .collect();
    (model.lines().join("\n"), texts)
}

/// The lines alone.
pub(super) fn lines(kconfig: &str, config: &str) -> String {
    resolved(kconfig, config).0
}

#[test]
fn macros_expand_where_they_stand() {
    let mut host = memory(
        "comma := ,\nrec = [$(comma)$(1)$(2)]\nrec += tail\nsimple := a\nsimple += $(comma)\n\
         undef += u\nundef += v\nhash := x # y\nbool := y\n\
         $(info,$(rec,1,2) $(simple) $(undef) $(hash) $(HOME) $(nope) $x $$ $(filename):$(lineno))\n\
         $(warning-if,$(bool),careful)\n$(warning-if,n,never)\n\
         config A_$(lineno)\n\tdef_bool $(shell,probe $(comma) -x)\n\
         config B\n\tstring\n\tdefault \"$(shell,two lines) '$(simple)' \\\"\"\n",
    );
    host.programs.insert("probe , -x", "y\n");
    host.programs.insert("two lines", "one\ntwo\n\n");
    host.variables.insert("HOME", "$(simple)");
    let tree = Tree::parse(&host, "Kconfig").unwrap();
    let said: Vec<&Said> = tree.said().iter().map(|(_, said)| said).collect();
    let text = "[,12] tail a , u v x # y $(simple)  $x $$ Kconfig:10";
    assert_eq!(said, [&Said::Info(text.to_owned())]);
    let warnings: Vec<String> = tree
        .warnings()
        .iter()
        .map(|w| format!("{}:{}", tree.shown(w.place()), w.text()))
        .collect();
    assert_eq!(warnings, ["Kconfig:11: careful"]);
    let lines = Model::new(tree).lines();
    assert_eq!(lines, ["CONFIG_A_13=y", "CONFIG_B=\"one two 'a ,' \\\"\""]);
}

#[test]
fn macros_that_cannot_expand_are_refused() {
    let many = (
        1,
        Problem::ArgumentCount {
            function: "shell".into(),
            takes: 1,
            given: 2,
        },
    );
    assert_eq!(problem("$(shell,a,b)\n"), many);
    assert_eq!(
        problem("\n$(error-if,y,no compiler)\n"),
        (2, Problem::ErrorIf("no compiler".into()))
    );
    assert!(matches!(
        problem("X = $(X)\n$(info,$(X))\n"),
        (2, Problem::EndlessVariable(_))
    ));
    assert!(matches!(
        problem("config $(A\n"),
        (1, Problem::Unterminated(_))
    ));
    assert!(matches!(
        problem("X = $(X)$(X)$(X)\nX += $(X)\nconfig $(X)\n"),
        (3, Problem::EndlessVariable(_))
    ));
}

#[test]
fn a_program_that_cannot_run_is_an_error_with_its_place() {
    let error = Tree::parse(&memory("\nX := $(shell,nothing)\n"), "Kconfig").unwrap_err();
    assert_eq!(error.to_string(), "Kconfig:2: the host could not answer");
}

#[test]
fn blocks_close_what_they_opened() {
    assert_eq!(problem("if A\n"), (1, Problem::NotClosed("`if`")));
    assert!(matches!(
        problem("menu \"m\"\nendif\n"),
        (2, Problem::WrongEnd { .. })
    ));
    assert!(matches!(
        problem("endmenu\n"),
        (1, Problem::WrongEnd { .. })
    ));
    assert!(matches!(
        problem("choice\nendchoice\n"),
        (2, Problem::ChoiceWithoutPrompt)
    ));
    let mut host = memory("if A\nsource \"b\"\n");
    host.files.insert("b", "endif\n".to_owned());
    let error = Tree::parse(&host, "Kconfig").unwrap_err();
    assert_eq!(
        error.to_string(),
        "b:1: `endif` closes nothing that this file opened"
    );
}

#[test]
fn files_are_included_once_in_each_place_and_never_in_themselves() {
    let mut host = memory("source \"$(DIR)/b\"\nsource \"a/b\"\n");
    host.variables.insert("DIR", "a");
    host.files
        .insert("a/b", "config X\n\tdef_bool y\n".to_owned());
    let tree = Tree::parse(&host, "Kconfig").unwrap();
    assert_eq!(tree.files(), ["Kconfig", "a/b", "a/b"]);
    assert_eq!(tree.symbol(tree.find("X").unwrap()).nodes.len(), 2);
    host.files.insert("a/b", "source \"a/b\"\n".to_owned());
    let error = Tree::parse(&host, "Kconfig").unwrap_err();
    assert_eq!(error.to_string(), "a/b:1: file `a/b` includes itself");
    assert_eq!(
        problem("\nsource \"c\"\n"),
        (2, Problem::NoFile("c".into()))
    );
}

#[test]
fn lines_that_no_grammar_has_are_refused() {
    for (text, line) in [
        ("config A B\n", 1),
        ("config\n", 1),
        ("config A\n\tbool \"a\" if\n", 2),
        ("config A\n\tdefault (y\n", 2),
        ("config A\n\tdefault y y\n", 2),
        ("config A\n\tdepends A\n", 2),
        ("comment \"c\"\n\tdefault y\n", 2),
        ("\tbool\n", 1),
        ("option x\n", 1),
        ("choice\n\tprompt \"c\"\nmenu \"m\"\n", 3),
        ("$(shell\n", 1),
    ] {
        assert_eq!(problem(text).0, line, "{text:?}");
    }
    assert_eq!(problem("endif\n").0, 1);
    assert!(matches!(
        problem("optoin\n"),
        (1, Problem::UnknownStatement(_))
    ));
}

#[test]
fn symbols_that_depend_on_each_other_are_refused_by_name() {
    let text = "config A\n\tbool \"a\"\n\tdepends on B\nconfig B\n\tbool \"b\"\n\tdepends on A\n";
    let names = vec!["A".to_owned(), "B".to_owned()];
    assert_eq!(problem(text).1, Problem::RecursiveDependency(names));
}

#[test]
fn nothing_nests_without_end() {
    for text in [
        format!(
            "config A\n\tdef_bool {}y{}\n",
            "(".repeat(9999),
            ")".repeat(9999)
        ),
        format!("config A\n\tdef_bool {}y\n", "!".repeat(9999)),
        format!("config A\n\tdef_bool y{}\n", " && y".repeat(9999)),
        "if A\n".repeat(9999),
        format!(
            "config A\n{}",
            "\tdepends on B || C\n\tdepends on D\n".repeat(9999)
        ),
        format!("$(info,{}{})\n", "$(x,".repeat(9999), ")".repeat(9999)),
    ] {
        let error = Tree::parse(&memory(&text), "Kconfig");
        assert!(matches!(error, Err(ParseError::Text { .. })), "{error:?}");
    }
}

#[test]
fn a_help_text_ends_where_it_is_indented_less() {
    let text = "config A\n\tbool \"a\"\n\thelp\n\n\t  one\n\n\t    two\n \t  three\n\tdefault y\n";
    let tree = tree(text);
    let node = tree.symbol(tree.find("A").unwrap()).nodes[0];
    assert_eq!(tree.node(node).help.as_deref(), Some("one\n\n  two\nthree"));
    assert_eq!(Model::new(tree).lines(), ["CONFIG_A=y"]);
}

#[test]
fn every_symbol_keeps_where_it_is_defined_and_what_it_pulls_in() {
    let tree = tree(
        "menu \"m\"\n\tdepends on M\nconfig A\n\tbool \"a\" if P\n\tdepends on D\n\tselect B if C\nendmenu\n\
         config B\n\tint\n\trange 1 9 if R\n\tdefault 3\n",
    );
    let a = tree.symbol(tree.find("A").unwrap());
    let node = tree.node(a.nodes[0]);
    assert_eq!(tree.shown(node.place), "Kconfig:3");
    let model = Model::new(tree);
    let tree = model.tree();
    let a = tree.symbol(tree.find("A").unwrap());
    let prompt = tree.node(a.nodes[0]).prompt.as_ref().unwrap();
    assert_eq!(model.shown(prompt.condition), "M && D && P");
    assert_eq!(tree.shown(a.selects[0].place), "Kconfig:6");
    assert_eq!(model.shown(a.selects[0].condition), "M && D && C");
    let b = tree.symbol(tree.find("B").unwrap());
    assert_eq!(b.selected_by.len(), 1);
    assert_eq!(tree.shown(b.ranges[0].place), "Kconfig:10");
}

#[test]
fn headings_stand_where_the_kernels_own_writer_puts_them() {
    let mut model = Model::new(tree(
        "mainmenu \"T\"\nconfig A\n\tdef_bool y\nmenu \"m\"\ncomment \"c\"\nconfig B\n\tbool \"b\"\nendmenu\n\
         menu \"hidden\"\n\tvisible if n\nconfig C\n\tdef_bool y\nendmenu\nconfig D\n\tstring \"d\"\n",
    ));
    model.read("CONFIG_D=\"a\\\\b\\\"\"\n");
    assert_eq!(
        model.file(),
        "#\n# Automatically generated file; DO NOT EDIT.\n# T\n#\nCONFIG_A=y\n\n#\n# m\n#\n\n#\n# c\n#\n\
         # CONFIG_B is not set\n# end of m\n\nCONFIG_C=y\nCONFIG_D=\"a\\\\b\\\"\"\n"
    );
}

#[test]
fn warnings_about_unmet_dependencies_read_as_the_kernels_own() {
    let mut model = Model::new(tree(
        "config A\n\tbool \"a\"\n\tselect X if A || A\nconfig B\n\tbool \"b\"\n\tdefault y\n\tselect X if !(A = n) && !D\n\
         config X\n\tbool\n\tdepends on C && !(D && C)\n\
         config C\n\tbool \"c\"\nconfig D\n\tbool \"d\"\n",
    ));
    model.read("CONFIG_A=y\n");
    assert_eq!(
        model.unmet(),
        ["\nWARNING: unmet direct dependencies detected for X\n  \
             Depends on [n]: C [=n] && (!D [=n] || !C [=n])\n  Selected by [y]:\n  \
             - A [=y] && A [=y]\n  - B [=y] && A [=y] && !D [=n]\n"]
    );
    model.read("# CONFIG_A is not set\n");
    assert!(model.unmet().is_empty());
}

#[test]
#[expect(clippy::format_collect, reason = "a test's text")]
fn a_trial_says_what_reading_the_line_would_change_and_leaves_no_trace() {
    let kconfig = "config M\n\tbool \"m\"\n\tmodules\nconfig A\n\ttristate \"a\"\n\tselect B\n\
                   config B\n\ttristate\nconfig C\n\ttristate \"c\"\n\tdepends on B\n\tdefault y\n\
                   choice\n\tprompt \"x\"\nconfig X1\n\tbool \"x1\"\nconfig X2\n\tbool \"x2\"\n\tdepends on A\nendchoice\n";
    let base = "CONFIG_M=y\nCONFIG_X2=y\n";
    let mut model = Model::new(tree(kconfig));
    model.read(base);
    let before = model.file();
    for (name, value) in [
        ("A", "m"),
        ("A", "y"),
        ("M", "n"),
        ("X1", "y"),
        ("C", "y"),
        ("A", "q"),
    ] {
        let symbol = model.tree().find(name).unwrap();
        let changes = model.trial(&[Ask {
            symbol,
            value: value.to_owned(),
        }]);
        let mut expected = model.lines();
        for change in &changes {
            expected.retain(|line| Some(line) != change.before.as_ref());
            expected.extend(change.after.clone());
        }
        assert_eq!(model.file(), before);
        let kept: String = base
            .lines()
            .filter(|l| !l.starts_with(&format!("CONFIG_{name}=")))
            .map(|l| format!("{l}\n"))
            .collect();
        model.read(&format!("{kept}CONFIG_{name}={value}\n"));
        let mut read = model.lines();
        read.sort();
        expected.sort();
        assert_eq!(read, expected, "{name}={value}");
        model.read(base);
    }
}

/// Any text is read or refused; it never stops the program.
#[test]
fn any_text_is_read_or_refused() {
    let words = [
        "config A\n",
        "config B\n",
        "\tbool \"x\"\n",
        "\ttristate\n",
        "\tint \"i\"\n",
        "if A\n",
        "endif\n",
        "menu \"m\"\n",
        "endmenu\n",
        "choice\n",
        "endchoice\n",
        "\tprompt \"p\" if B\n",
        "\tdefault y if A = m\n",
        "\tdepends on !(A && B) || C\n",
        "\tselect A if B\n",
        "\timply B\n",
        "\trange 1 B\n",
        "\tvisible if A\n",
        "\thelp\n\t  text\n\n",
        "$(info,$(X))\n",
        "X = $(1)$(X,\n",
        "\"open\n",
        "\\\n",
        "# c\n",
        "\tmodules\n",
        "&& || ! ( )\n",
        "comment \"c\"\n",
        "\u{e4}\n",
        "source \"Kconfig\"\n",
        "\ttransitional\n",
        "y\n",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..12 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let index = usize::try_from(state % words.len() as u64).unwrap();
            text.push_str(words[index]);
        }
        if let Ok(tree) = Tree::parse(&memory(&text), "Kconfig") {
            let mut model = Model::new(tree);
            model.read(&text.replace('\t', "CONFIG_"));
            let again = model.file();
            model.read(&again);
            let _unmet = model.unmet();
        }
    }
}
