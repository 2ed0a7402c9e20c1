//! The traps of the language, each found with the kernel's own program.

use super::language_tests::{lines, memory, resolved, tree};
use super::{Ask, Model, ParseError, Tree};

const PREEMPT: &str = "choice\n\tprompt \"p\"\n\tdefault NONE\nconfig NONE\n\tbool \"none\"\n\
                       config VOLUNTARY\n\tbool \"voluntary\"\nconfig FULL\n\tbool \"full\"\nendchoice\n";

#[test]
fn trap_1_the_order_of_lines_decides_a_choice() {
    let chosen = |config: &str| {
        let lines = lines(PREEMPT, config);
        let line = lines
            .lines()
            .find(|line| line.ends_with("=y"))
            .unwrap()
            .to_owned();
        line.replace("CONFIG_", "").replace("=y", "")
    };
    assert_eq!(chosen("CONFIG_FULL=y\nCONFIG_VOLUNTARY=y\n"), "VOLUNTARY");
    assert_eq!(chosen("CONFIG_VOLUNTARY=y\nCONFIG_FULL=y\n"), "FULL");
    assert_eq!(chosen(""), "NONE");
    // The default is n: the first without a value.
    assert_eq!(chosen("# CONFIG_NONE is not set\n"), "VOLUNTARY");
    assert_eq!(
        chosen("# CONFIG_NONE is not set\n# CONFIG_VOLUNTARY is not set\n"),
        "FULL"
    );
    // All are n: the one whose n is the oldest.
    let off = |names: [&str; 3]| {
        names
            .map(|name| format!("# CONFIG_{name} is not set\n"))
            .concat()
    };
    assert_eq!(chosen(&off(["FULL", "NONE", "VOLUNTARY"])), "FULL");
    assert_eq!(chosen(&off(["VOLUNTARY", "NONE", "FULL"])), "VOLUNTARY");
    assert_eq!(chosen("CONFIG_FULL=y\n# CONFIG_FULL is not set\n"), "NONE");
}

#[test]
fn trap_1_a_member_is_not_selected_and_has_only_its_entrys_dependency() {
    let kconfig = format!("config S\n\tdef_bool y\n\tselect FULL\n\timply VOLUNTARY\n{PREEMPT}");
    assert!(lines(&kconfig, "").contains("CONFIG_NONE=y\n"));
    let model = Model::new(tree(&kconfig));
    let full = model.tree().find("FULL").unwrap();
    assert!(model.tree().symbol(full).direct.is_empty());
    assert!(model.tree().symbol(full).selected_by.is_empty());
}

#[test]
fn trap_2_values_are_read_by_their_start() {
    let kconfig = "config M\n\tdef_bool y\n\tmodules\nconfig T\n\ttristate \"t\"\nconfig I\n\tint \"i\"\n\tdefault 7\n\
                   config H\n\thex \"h\"\nconfig S\n\tstring \"s\"\n\tdefault \"d\"\n";
    let (text, warnings) = resolved(
        kconfig,
        "CONFIG_T=mauve\nCONFIG_I=017\nCONFIG_H=ff\nCONFIG_S=plain\n# CONFIG_T is not set \n",
    );
    assert_eq!(
        text,
        "CONFIG_M=y\nCONFIG_T=m\nCONFIG_I=7\nCONFIG_H=ff\nCONFIG_S=\"d\""
    );
    assert_eq!(warnings, ["2: symbol value '017' invalid for I"]);
    let (text, warnings) = resolved(kconfig, "CONFIG_S=\"a\\\"b\" tail\nCONFIG_S=\"open\n");
    assert!(text.ends_with("CONFIG_S=\"a\\\"b\""));
    let open = [
        "2: override: reassigning to symbol S",
        "2: invalid string found",
    ];
    assert_eq!(warnings, open);
}

#[test]
fn trap_2_lines_that_only_look_like_assignments() {
    let (text, warnings) = resolved(
        "config A\n\tbool \"a\"\n",
        " CONFIG_A=y\nCONFIG_A =y\n#CONFIG_A is not set\nCONFIG_A\nCONFIG_B=y\r\n\r\nCONFIG_A=y\r\n",
    );
    assert_eq!(text, "CONFIG_A=y");
    assert_eq!(
        warnings,
        [
            "1: unexpected data:  CONFIG_A=y",
            "2: unknown symbol: A ",
            "4: unexpected data: CONFIG_A",
            "5: unknown symbol: B",
        ]
    );
}

#[test]
fn trap_3_imply_gives_way_and_select_does_not() {
    let kconfig = "config A\n\tbool \"a\"\n\timply I\n\tselect S\nconfig D\n\tbool \"d\"\n\
                   config I\n\tbool \"i\"\n\tdepends on D\nconfig S\n\tbool \"s\"\n\tdepends on D\n";
    let all = "CONFIG_A=y\nCONFIG_D=y\nCONFIG_I=y\nCONFIG_S=y";
    assert_eq!(lines(kconfig, "CONFIG_A=y\nCONFIG_D=y\n"), all);
    let off = lines(
        kconfig,
        "CONFIG_A=y\nCONFIG_D=y\n# CONFIG_I is not set\n# CONFIG_S is not set\n",
    );
    assert_eq!(
        off,
        "CONFIG_A=y\nCONFIG_D=y\n# CONFIG_I is not set\nCONFIG_S=y"
    );
    // Without the dependency: the implied one is n, and has a line all the same.
    let unmet = "CONFIG_A=y\n# CONFIG_D is not set\n# CONFIG_I is not set\nCONFIG_S=y";
    assert_eq!(lines(kconfig, "CONFIG_A=y\n"), unmet);
    let mut model = Model::new(tree(kconfig));
    model.read("CONFIG_A=y\n");
    assert_eq!(model.unmet().len(), 1);
}

#[test]
fn trap_4_a_bound_takes_the_place_of_a_value_beyond_it_as_text() {
    let kconfig = "config W\n\tbool \"w\"\nconfig HIGH\n\tint\n\tdefault 025\n\
                   config I\n\tint \"i\"\n\trange 12 HIGH if !W\n\trange 1 99\n\tdefault 500\n\
                   config HIDDEN\n\thex\n\trange 0x10 0x20\n\tdefault 0x5\n";
    assert!(lines(kconfig, "CONFIG_I=99\n").contains("CONFIG_I=025\nCONFIG_HIDDEN=0x10"));
    assert!(lines(kconfig, "CONFIG_I=3\n").contains("CONFIG_I=12\n"));
    assert!(lines(kconfig, "").contains("CONFIG_I=025\n"));
    assert!(lines(kconfig, "CONFIG_W=y\nCONFIG_I=98\n").contains("CONFIG_I=98\n"));
}

#[test]
fn trap_4_the_first_default_whose_condition_holds_counts_over_all_entries() {
    let kconfig = "config A\n\tbool \"a\"\nconfig I\n\tint\n\tdefault 1 if A\nconfig I\n\tdefault 2\n\tdefault 3\n";
    assert!(lines(kconfig, "CONFIG_A=y\n").ends_with("CONFIG_I=1"));
    assert!(lines(kconfig, "").ends_with("CONFIG_I=2"));
}

#[test]
fn trap_5_m_means_m_and_modules() {
    let kconfig = "config MODULES\n\tbool \"m\"\n\tmodules\nconfig T\n\ttristate \"t\"\n\tdefault m\n\
                   config D\n\ttristate \"d\"\n\tdepends on m\n\tdefault y\nconfig B\n\tbool \"b\"\n\tdepends on T\n\tdefault y\n";
    let on = "CONFIG_MODULES=y\nCONFIG_T=m\nCONFIG_D=m\nCONFIG_B=y";
    assert_eq!(lines(kconfig, "CONFIG_MODULES=y\n"), on);
    // Without modules a tristate is a bool: its default m is y, and a condition m is n.
    let off = "# CONFIG_MODULES is not set\nCONFIG_T=y\nCONFIG_B=y";
    assert_eq!(lines(kconfig, ""), off);
}

#[test]
fn trap_6_a_symbol_without_entry_is_its_name() {
    let kconfig = "config A\n\tdef_bool FOO = n\nconfig B\n\tdef_bool !FOO\nconfig C\n\tdef_bool FOO = \"FOO\"\n\
                   config D\n\tdef_bool 0x10 = 16\nconfig E\n\tdef_bool \"a\" < \"b\"\nconfig F\n\tdef_bool B > m\n\
                   config H\n\thex\n\tdefault 0x0\nconfig G\n\tdef_bool -1 > H\n";
    let on = "CONFIG_B=y\nCONFIG_C=y\nCONFIG_D=y\nCONFIG_E=y\nCONFIG_F=y\nCONFIG_H=0x0\nCONFIG_G=y";
    assert_eq!(lines(kconfig, ""), on);
}

#[test]
fn trap_7_a_condition_reaches_the_properties_of_its_own_entry() {
    let kconfig = "config A\n\tbool \"a\"\nif A\nconfig X\n\tbool \"x\"\n\tselect Y\nendif\n\
                   config X\n\tbool\n\tdefault y\nconfig Y\n\tbool\n\
                   menu \"m\"\n\tvisible if A\nconfig V\n\tbool \"v\"\n\tdefault y\nendmenu\n";
    // The default of the second entry holds without A; the select of the first does not.
    assert_eq!(
        lines(kconfig, "# CONFIG_V is not set\n"),
        "# CONFIG_A is not set\nCONFIG_X=y\nCONFIG_V=y"
    );
    let on = "CONFIG_A=y\nCONFIG_X=y\nCONFIG_Y=y\n# CONFIG_V is not set";
    assert_eq!(lines(kconfig, "CONFIG_A=y\n# CONFIG_V is not set\n"), on);
}

#[test]
fn trap_8_what_is_written_and_in_which_order() {
    let kconfig = "config LATE\n\tbool\nconfig HIDDEN\n\tbool\n\tdefault n\nconfig B\n\tbool \"b\"\n\tselect LATE\n\
                   config LATE\n\tbool \"late\" if B\nconfig STRING\n\tstring\n\tdefault \"\"\nconfig NUMBER\n\tint\n";
    assert_eq!(
        lines(kconfig, ""),
        "# CONFIG_B is not set\nCONFIG_STRING=\"\""
    );
    assert_eq!(
        lines(kconfig, "CONFIG_B=y\n"),
        "CONFIG_LATE=y\nCONFIG_B=y\nCONFIG_STRING=\"\""
    );
}

#[test]
fn trap_9_a_transitional_symbol_is_read_and_never_written() {
    let kconfig = "config NEW\n\tbool \"new\"\n\tdefault OLD\nconfig OLD\n\tbool\n\ttransitional\n\
                   config N\n\tint \"n\"\n\tdefault O\nconfig O\n\tint\n\ttransitional\n";
    assert_eq!(
        lines(kconfig, "CONFIG_OLD=y\nCONFIG_O=5\n"),
        "CONFIG_NEW=y\nCONFIG_N=5"
    );
    assert_eq!(
        lines(kconfig, "").lines().next(),
        Some("# CONFIG_NEW is not set")
    );
    let wrong = "config OLD\n\tbool \"asked\"\n\ttransitional\n";
    assert!(Tree::parse(&memory(wrong), "Kconfig").is_err());
}

#[test]
fn trap_10_the_environment_is_input_and_every_variable_is_known() {
    let mut host = memory("config V\n\tstring\n\tdefault \"$(CC) $(NONE)\"\n");
    host.variables.insert("CC", "gcc");
    let tree = Tree::parse(&host, "Kconfig").unwrap();
    assert_eq!(
        tree.variables(),
        [
            ("CC".to_owned(), Some("gcc".to_owned())),
            ("NONE".to_owned(), None)
        ]
    );
    assert_eq!(Model::new(tree).lines(), ["CONFIG_V=\"gcc \""]);
}

#[test]
fn trap_11_programs_answer_in_defaults_and_an_error_of_the_tree_is_one() {
    let mut host = memory("config P\n\tint\n\tdefault $(shell,pahole-version.sh $(PAHOLE))\n");
    host.variables.insert("PAHOLE", "pahole");
    host.programs.insert("pahole-version.sh pahole", "124\n");
    assert_eq!(
        Model::new(Tree::parse(&host, "Kconfig").unwrap()).lines(),
        ["CONFIG_P=124"]
    );
    host.programs.insert("pahole-version.sh pahole", "");
    // Nothing stands where the program said nothing.
    assert!(Tree::parse(&host, "Kconfig").is_err());
    let host = memory("$(error-if,y,this compiler is not supported.)\n");
    let error = Tree::parse(&host, "Kconfig").unwrap_err();
    assert!(matches!(error, ParseError::Text { line: 1, .. }));
    assert_eq!(
        error.to_string(),
        "Kconfig:1: this compiler is not supported."
    );
}

#[test]
fn trap_12_m_on_a_bool_over_a_base_that_had_y_gives_n() {
    let kconfig = "config B\n\tbool \"b\"\n";
    let (text, warnings) = resolved(kconfig, "CONFIG_B=m\n");
    assert_eq!(text, "# CONFIG_B is not set");
    assert_eq!(warnings, ["1: symbol value 'm' invalid for B"]);
    let mut model = Model::new(tree(kconfig));
    model.read("CONFIG_B=y\n");
    let symbol = model.tree().find("B").unwrap();
    let changes = model.trial(&[Ask {
        symbol,
        value: "m".to_owned(),
    }]);
    assert_eq!(changes[0].after.as_deref(), Some("# CONFIG_B is not set"));
}

#[test]
fn trap_13_warnings_stop_nothing() {
    let (text, warnings) = resolved(
        "config B\n\tbool \"b\"\n",
        "garbage\nCONFIG_B=y\nCONFIG_B=y\nCONFIG_GONE=y\n",
    );
    assert_eq!(text, "CONFIG_B=y");
    assert_eq!(warnings.len(), 3);
}

#[test]
fn conditional_dependencies_of_newer_trees() {
    let kconfig = "config MODULES\n\tdef_bool y\n\tmodules\nconfig B\n\ttristate \"b\"\n\
                   config X\n\ttristate \"x\"\n\tdefault y\n\tdepends on B if B\nconfig Y\n\ttristate \"y\"\n\tdefault y\n\tdepends on n if B\n";
    let of = |value: &str| lines(kconfig, &format!("CONFIG_B={value}\n"));
    assert!(of("n").ends_with("CONFIG_X=y\nCONFIG_Y=y"));
    assert!(of("m").ends_with("CONFIG_B=m\nCONFIG_X=m"));
    assert!(of("y").ends_with("CONFIG_B=y\nCONFIG_X=y"));
}

#[test]
fn the_default_of_a_string_from_a_bool_is_n() {
    let kconfig = "config B\n\tdef_bool y\nconfig S\n\tstring\n\tdefault B\nconfig T\n\tstring\n\tdefault y\n";
    assert_eq!(
        lines(kconfig, ""),
        "CONFIG_B=y\nCONFIG_S=\"n\"\nCONFIG_T=\"y\""
    );
}
