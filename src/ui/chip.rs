//! A machine drawn: who owns which core, by the cache that the cores share.

use crate::node::{Class, Plan, PlannedDomain};

use super::style::{Style, Tone};

/// Cores beside each other.
const ACROSS: usize = 8;

/// The map as text: `H` keeps house, `P` and its turn is given away. Legible without colour.
pub fn map(plan: &Plan, style: Style) -> String {
    let labels = Labels::of(plan);
    let mut out = Vec::new();
    for domain in &plan.domains {
        out.push(format!("{}\n", heading(domain)));
        let width = domain
            .cores
            .iter()
            .map(|core| labels.label(&core.cpus).len() + core.cpus.to_string().len());
        let width = width.max().unwrap_or(0);
        for row in domain.cores.chunks(ACROSS) {
            let cell = |core: &crate::node::PlannedCore| {
                let label = labels.label(&core.cpus);
                let cpus = core.cpus.to_string();
                let gap = " ".repeat(width - label.len() - cpus.len());
                let tone = match core.class {
                    Class::Housekeeping => Tone::Warn,
                    Class::Pool => Tone::Good,
                };
                format!("[{} {cpus}{gap}]", style.paint(tone, &label))
            };
            let cells: Vec<String> = row.iter().map(cell).collect();
            out.push(format!("  {}\n", cells.join(" ")));
        }
    }
    out.concat()
}

fn heading(domain: &PlannedDomain) -> String {
    let spared = if domain.spared {
        ", stacked: keeps no house"
    } else {
        ""
    };
    format!(
        "package {}, node {}, L3 {}{spared}",
        domain.package,
        domain.node,
        size(domain.size_kib)
    )
}

/// A cache's size for people.
pub fn size(kib: u64) -> String {
    if kib.is_multiple_of(1024) {
        format!("{} MiB", kib / 1024)
    } else {
        format!("{kib} KiB")
    }
}

/// What stands in a core: `H`, or `P` with its turn.
struct Labels<'a>(&'a Plan);

impl Labels<'_> {
    fn of(plan: &Plan) -> Labels<'_> {
        Labels(plan)
    }

    fn label(&self, core: &crate::cpus::CpuSet) -> String {
        let turn = self.0.pool_order.iter().position(|other| other == core);
        turn.map_or_else(|| "H".to_owned(), |turn| format!("P{}", turn + 1))
    }
}

/// Sizes of the drawing, in pixels.
const CELL: usize = 84;
const HIGH: usize = 48;
const GAP: usize = 8;
const HEAD: usize = 26;

/// The map as a picture: SVG without script, style sheet or anything from elsewhere.
pub fn svg(plan: &Plan) -> String {
    let labels = Labels::of(plan);
    let rows = |domain: &PlannedDomain| domain.cores.len().div_ceil(ACROSS);
    let tall = |domain: &PlannedDomain| HEAD + rows(domain) * (HIGH + GAP) + GAP;
    let most = plan.domains.iter().map(|domain| domain.cores.len());
    let across = most.max().unwrap_or(0).clamp(4, ACROSS);
    let width = across * (CELL + GAP) + 3 * GAP;
    let height = plan.domains.iter().map(tall).sum::<usize>() + plan.domains.len() * GAP + 44;
    let mut out = vec![format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n\
         <title>Who owns which core</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    )];
    let mut top = GAP;
    for domain in &plan.domains {
        let inner = width - 2 * GAP;
        out.push(format!(
            "<rect x=\"{GAP}\" y=\"{top}\" width=\"{inner}\" height=\"{}\" rx=\"6\" fill=\"#f2f2f2\" \
             stroke=\"#888888\"/>\n<text x=\"{}\" y=\"{}\">{}</text>\n",
            tall(domain),
            2 * GAP,
            top + 18,
            heading(domain)
        ));
        for (at, core) in domain.cores.iter().enumerate() {
            let (x, y) = (
                2 * GAP + at % ACROSS * (CELL + GAP),
                top + HEAD + at / ACROSS * (HIGH + GAP),
            );
            let fill = match core.class {
                Class::Housekeeping => "#f5d58a",
                Class::Pool => "#a9d8b0",
            };
            out.push(format!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{CELL}\" height=\"{HIGH}\" rx=\"4\" fill=\"{fill}\" \
                 stroke=\"#555555\"/>\n<text x=\"{0}\" y=\"{1}\" text-anchor=\"middle\" \
                 font-weight=\"bold\">{2}</text>\n<text x=\"{0}\" y=\"{3}\" \
                 text-anchor=\"middle\">{4}</text>\n",
                x + CELL / 2,
                y + 19,
                labels.label(&core.cpus),
                y + 38,
                core.cpus
            ));
        }
        top += tall(domain) + GAP;
    }
    out.push(format!(
        "<text x=\"{GAP}\" y=\"{}\">H keeps house; P is given away, in this order.</text>\n\
         <text x=\"{GAP}\" y=\"{}\" font-size=\"10\" fill=\"#555555\">{}</text>\n</svg>\n",
        top + 14,
        top + 30,
        plan.fingerprint
    ));
    out.concat()
}
