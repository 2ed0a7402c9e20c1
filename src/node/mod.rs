//! Which core does what on a machine: a plan, as a pure function of what the machine is.
//!
//! A plan is data that a person can read before anything is changed. Where the machine leaves a doubt,
//! there is a [`Refusal`] with what would take the doubt away, and no plan.

mod decisions;
mod interrupts;
mod layout;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod parameters;
mod plan;
#[cfg(test)]
mod plan_tests;
mod refusal;
mod slots;
mod split;

pub use decisions::{Decision, State};
pub use interrupts::{Given, Interrupts, Queues, VECTORS};
pub use layout::{Domain, Layout};
pub use ledger::{Kind, LEDGER, Ledger, LedgerError, Slot, Wanted};
pub use parameters::{LeftOut, Parameter, command_line};
pub use plan::{Cap, Class, DEEPEST_US, Order, Plan, PlannedCore, PlannedDomain, Role, plan};
pub use refusal::Refusal;
pub use slots::{Determinism, Slots};
pub use split::STACKED_KIB;
