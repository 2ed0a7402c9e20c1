use super::*;
use crate::dotconfig::DotConfig;
use crate::kconfig::language::{Memory, Model, Tree};
use crate::kconfig::{Fragment, merge};

fn tree(text: &str) -> Tree {
    Tree::parse(&Memory::of(text), "Kconfig").unwrap()
}

/// The answer about the first request of `fragment` over `base`, and the model behind it.
fn answer(kconfig: &str, base: &str, fragment: &str) -> Answer {
    let base = DotConfig::parse(base);
    let fragments = [Fragment::parse("f.config", fragment).unwrap()];
    let merged = merge(&base, &fragments, &[], "6.12".parse().unwrap()).unwrap();
    let mut model = Model::new(tree(kconfig));
    model.read(merged.text());
    let ground = Ground {
        requests: &merged.requests,
        base: &base,
    };
    let mut explainer = Explainer::new(&mut model, ground);
    let answer = explainer.request(&merged.requests[0]).unwrap();
    assert_tried(kconfig, &base, fragment, &answer);
    answer
}

/// Pasted at the end of the fragment, the lines make the request hold; without any one of them they
/// do not.
fn assert_tried(kconfig: &str, base: &DotConfig, fragment: &str, answer: &Answer) {
    let Fix::Add { lines, .. } = &answer.fix else {
        return;
    };
    let holds = |lines: &[String]| {
        let text = format!("{fragment}\n{}\n", lines.join("\n"));
        let fragment = Fragment::parse("f.config", &text).unwrap();
        let merged = merge(base, &[fragment], &[], "6.12".parse().unwrap()).unwrap();
        let mut model = Model::new(tree(kconfig));
        model.read(merged.text());
        let resolved = DotConfig::parse(model.file());
        let request = &merged.requests[0];
        request.wanted.accepts(resolved.value(&request.symbol))
    };
    assert!(holds(lines), "{lines:?}");
    for at in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(at);
        assert!(!holds(&fewer), "{lines:?} holds without line {at}");
    }
}

fn lines(answer: &Answer) -> Vec<&str> {
    answer.fix.lines().iter().map(String::as_str).collect()
}

#[test]
fn a_missing_need_is_named_with_who_turned_it_off_and_the_line_that_turns_it_on() {
    let kconfig = "config A\n\tbool \"a\"\n\tdepends on B\nconfig B\n\tbool \"b\"\n";
    let found = answer(kconfig, "# CONFIG_B is not set\n", "CONFIG_A=y\n");
    assert_eq!(found.needs.len(), 1);
    assert_eq!(found.needs[0].to_string(), "B [=n]");
    let fact = &found.needs[0].symbols[0];
    assert_eq!(fact.set, SetBy::Base { line: 1 });
    assert_eq!(lines(&found), ["CONFIG_B=y"]);
}

#[test]
fn needs_of_needs_are_followed() {
    let kconfig = "if M\nconfig A\n\tbool \"a\" if P\n\tdepends on B && C\nendif\n\
                   config M\n\tbool \"m\"\nconfig P\n\tbool\nconfig S\n\tbool \"s\"\n\tselect P\n\
                   config B\n\tbool \"b\"\n\tdepends on D\nconfig C\n\tbool \"c\"\n\tdefault y\n\
                   config D\n\tbool \"d\"\n";
    let found = answer(kconfig, "", "CONFIG_A=y\n");
    let needs: Vec<String> = found.needs.iter().map(ToString::to_string).collect();
    assert_eq!(needs, ["M [=n] (the if at Kconfig:1)", "B [=n]", "P [=n]"]);
    let mut all = lines(&found);
    all.sort_unstable();
    assert_eq!(
        all,
        ["CONFIG_B=y", "CONFIG_D=y", "CONFIG_M=y", "CONFIG_S=y"]
    );
}

#[test]
fn a_hidden_prompt_is_the_cause_and_not_the_range() {
    let kconfig = "config MAX\n\tbool \"max\"\n\
                   config NR\n\tint \"nr\" if !MAX\n\trange 8192 8192 if MAX\n\trange 2 512\n\
                   \tdefault 8192 if MAX\n\tdefault 64\n";
    let found = answer(kconfig, "CONFIG_MAX=y\n", "CONFIG_NR=256\n");
    assert!(found.hidden);
    assert_eq!(found.needs[0].to_string(), "!MAX [=y]");
    assert_eq!(lines(&found), ["# CONFIG_MAX is not set"]);
    let found = answer(kconfig, "", "CONFIG_NR=1024\n");
    assert!(!found.hidden);
    assert_eq!(found.range.as_deref(), Some("2 512"));
    assert!(matches!(found.fix, Fix::Instead { .. }), "{:?}", found.fix);
    assert_eq!(lines(&found), ["CONFIG_NR=512"]);
}

#[test]
fn a_number_that_follows_from_a_choice_is_asked_for_there() {
    let kconfig = "choice\n\tprompt \"hz\"\nconfig HZ_250\n\tbool \"250\"\nconfig HZ_1000\n\
                   \tbool \"1000\"\nendchoice\nconfig HZ\n\tint\n\tdefault 250 if HZ_250\n\
                   \tdefault 1000 if HZ_1000\n";
    let found = answer(kconfig, "CONFIG_HZ_250=y\n", "CONFIG_HZ=1000\n");
    assert_eq!(lines(&found), ["CONFIG_HZ_1000=y"]);
    assert!(matches!(found.fix, Fix::Instead { .. }));
}

#[test]
fn what_selects_is_turned_off_for_what_should_be_off() {
    let kconfig = "config I\n\tbool \"i\"\nconfig K\n\tbool \"k\"\n\tselect I\n\
                   config L\n\tbool \"l\"\n\tselect I if K\n";
    let base = "CONFIG_K=y\nCONFIG_L=y\n";
    let found = answer(kconfig, base, "# CONFIG_I is not set\n");
    let SetBy::Select { selectors } = &found.set else {
        panic!("{:?}", found.set)
    };
    assert_eq!(selectors[0].site.to_string(), "Kconfig:5");
    assert_eq!(lines(&found), ["# CONFIG_K is not set"]);
}

#[test]
fn clamped_to_a_module_because_a_need_is_one() {
    let kconfig = "config MODULES\n\tbool \"modules\"\n\tmodules\n\
                   config X\n\ttristate \"x\"\nconfig O\n\ttristate \"o\"\n\tdepends on X\n";
    let found = answer(kconfig, "CONFIG_MODULES=y\nCONFIG_X=m\n", "CONFIG_O=y\n");
    assert_eq!(found.needs[0].to_string(), "X [=m]");
    assert_eq!(found.needs[0].value, "m");
    assert_eq!(lines(&found), ["CONFIG_X=y"]);
}

#[test]
fn what_can_only_be_a_module_is_asked_for_as_one() {
    let kconfig = "config MODULES\n\tbool \"modules\"\n\tmodules\n\
                   config X\n\tbool \"x\"\nconfig O\n\ttristate \"o\"\n\tdepends on X && m\n";
    let found = answer(kconfig, "CONFIG_MODULES=y\n", "CONFIG_O=y\n");
    assert!(matches!(found.fix, Fix::Instead { .. }), "{:?}", found.fix);
    assert_eq!(lines(&found), ["CONFIG_X=y", "CONFIG_O=m"]);
}

#[test]
fn another_request_is_never_broken_but_named() {
    let kconfig = "config A\n\tbool \"a\"\n\tdepends on !B\nconfig B\n\tbool \"b\"\n";
    let found = answer(kconfig, "", "CONFIG_A=y\nCONFIG_B=y\n");
    let Fix::Conflict { lines, with } = &found.fix else {
        panic!("{:?}", found.fix)
    };
    assert_eq!(lines, &["# CONFIG_B is not set"]);
    assert_eq!(with[0].origin.to_string(), "f.config:2");
}

#[test]
fn of_two_ways_the_one_that_costs_less_is_suggested() {
    let kconfig = "config A\n\tbool \"a\"\n\tdepends on !X || B\nconfig X\n\tbool \"x\"\n\
                   config Y\n\tbool \"y\"\n\tdepends on X\nconfig B\n\tbool \"b\"\n";
    let found = answer(kconfig, "CONFIG_X=y\nCONFIG_Y=y\n", "CONFIG_A=y\n");
    assert_eq!(lines(&found), ["CONFIG_B=y"]);
}

#[test]
fn a_longer_answer_is_better_than_one_that_loses_much() {
    // Without BUS the driver goes, and thirty others; without its two users only those.
    let users = "config U1\n\tbool \"u1\"\n\tdepends on BUS\n\tselect LIB\n\
                 config U2\n\tbool \"u2\"\n\tdepends on BUS\n\tselect LIB\n";
    let others: Vec<String> = (0..30)
        .map(|n| format!("config O{n}\n\tbool \"o\"\n\tdepends on BUS\n"))
        .collect();
    let lib = "config LIB\n\tbool \"lib\"\nconfig BUS\n\tbool \"bus\"\n\tselect LIB if DEEP\n\
               config DEEP\n\tbool \"deep\"\n";
    let kconfig = format!("{lib}{users}{}", others.concat());
    let on: Vec<String> = (0..30).map(|n| format!("CONFIG_O{n}=y\n")).collect();
    let on = on.concat();
    let base = format!("CONFIG_BUS=y\nCONFIG_U1=y\nCONFIG_U2=y\nCONFIG_DEEP=y\n{on}");
    let found = answer(&kconfig, &base, "# CONFIG_LIB is not set\n");
    let mut lines = lines(&found);
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "# CONFIG_DEEP is not set",
            "# CONFIG_U1 is not set",
            "# CONFIG_U2 is not set"
        ]
    );
}

#[test]
fn a_number_beyond_the_range_of_a_hidden_prompt_gets_prompt_and_bound() {
    let kconfig = "config P\n\tbool \"p\"\nconfig N\n\tint \"n\"\n\tdepends on P\n\trange 1 9\n";
    let found = answer(kconfig, "", "CONFIG_N=12\n");
    assert!(matches!(found.fix, Fix::Instead { .. }), "{:?}", found.fix);
    assert_eq!(lines(&found), ["CONFIG_P=y", "CONFIG_N=9"]);
}

#[test]
fn where_nothing_helps_the_probe_is_named() {
    let mut host = Memory::of(
        "config A\n\tbool \"a\"\n\tdepends on CC_HAS\nconfig CC_HAS\n\tdef_bool $(shell,cc -has)\n\
         config B\n\tbool \"b\"\n\tdepends on $(shell,ld -has)\n",
    );
    host.programs.insert("cc -has", "n");
    host.programs.insert("ld -has", "n");
    let base = DotConfig::parse("");
    let text = "CONFIG_A=y\nCONFIG_B=y\n";
    let fragments = [Fragment::parse("f.config", text).unwrap()];
    let merged = merge(&base, &fragments, &[], "6.12".parse().unwrap()).unwrap();
    let mut model = Model::new(Tree::parse(&host, "Kconfig").unwrap());
    model.read(merged.text());
    let ground = Ground {
        requests: &merged.requests,
        base: &base,
    };
    let mut explainer = Explainer::new(&mut model, ground);
    for (request, text) in [(0, "$(shell,cc -has)"), (1, "$(shell,ld -has)")] {
        let answer = explainer.request(&merged.requests[request]).unwrap();
        assert_eq!(answer.fix, Fix::None);
        let probes = answer.probes();
        assert_eq!(probes.len(), 1, "{answer:?}");
        assert_eq!(
            (probes[0].probe.as_str(), probes[0].answer.as_str()),
            (text, "n")
        );
    }
}

#[test]
fn a_value_of_another_type_is_written_as_this_one() {
    let kconfig = "config B\n\tbool \"b\"\nconfig I\n\tint \"i\"\nconfig S\n\tstring \"s\"\n";
    assert_eq!(lines(&answer(kconfig, "", "CONFIG_B=1\n")), ["CONFIG_B=y"]);
    assert_eq!(lines(&answer(kconfig, "", "CONFIG_B=m\n")), ["CONFIG_B=y"]);
    assert_eq!(lines(&answer(kconfig, "", "CONFIG_I=y\n")), ["CONFIG_I=1"]);
    assert_eq!(
        lines(&answer(kconfig, "", "CONFIG_S=7\n")),
        ["CONFIG_S=\"7\""]
    );
}
