//! What kiln knows of symbols, against a real tree.

use kiln::dotconfig::Value;
use kiln::kconfig::{Facts, Symbols, Type};

use super::world::world;
use crate::support::Outcome;

/// What is known of symbols, checked against what the tree itself wrote.
pub fn symbols_are_known() -> Outcome {
    let world = world()?;
    let model = world.model();
    let symbols = Symbols::new(Some(model.tree()));
    assert!(symbols.names().count() > 15_000);
    let mut strangers = Vec::new();
    for (symbol, value) in world.alone.config.symbols() {
        let fits = matches!(
            (symbols.kind(symbol), value),
            (Some(Type::Bool | Type::Tristate), Value::Yes | Value::No)
                | (Some(Type::Tristate), Value::Module)
                | (Some(Type::Int), Value::Int(_))
                | (Some(Type::Hex), Value::Hex(_) | Value::Int(_))
                | (Some(Type::String), Value::Text(_))
        );
        if !fits {
            strangers.push(symbol);
        }
    }
    assert!(strangers.is_empty(), "{strangers:?}");
    assert!(symbols.is_promptless("HZ"));
    let members: Vec<&str> = symbols.siblings("PREEMPT").collect();
    assert!(members.contains(&"PREEMPT_VOLUNTARY"), "{members:?}");
    Ok(())
}

/// Each pattern of the security list names something of a kernel that is tested; what only a newer
/// series has is listed here.
pub fn security_rows() -> Outcome {
    let newer = ["CFI"];
    let world = world()?;
    let model = world.model();
    let symbols = Symbols::new(Some(model.tree()));
    for row in Facts::embedded()?.security_rows() {
        for pattern in &row.symbols {
            let names = |symbol: &str| kiln::spec::matches(pattern, symbol);
            let known = symbols.names().any(names);
            assert!(known || newer.contains(&pattern.as_str()), "{pattern}");
        }
    }
    Ok(())
}
