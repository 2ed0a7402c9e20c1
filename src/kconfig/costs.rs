//! Collateral as a person tells it: by the line that causes it, then by what that line takes away
//! itself, then by what goes with that.

use super::finding::{Finding, Kind, Rival, Severity};

/// What requests cost beside what they ask for.
#[derive(Debug)]
pub struct Cost<'r> {
    /// The requests, any of which taken out brings the options back; none where no one is known.
    pub causes: Vec<Rival>,
    /// What they take or change themselves.
    pub direct: Vec<Direct<'r>>,
}

/// A change next to its cause, and what follows from it.
#[derive(Debug)]
pub struct Direct<'r> {
    /// The change.
    pub finding: &'r Finding,
    /// What follows.
    pub followers: Vec<&'r Finding>,
}

/// Groups the collateral among findings, in their order.
pub fn costs<'r>(findings: impl Iterator<Item = &'r Finding>) -> Vec<Cost<'r>> {
    let mut costs: Vec<Cost<'r>> = Vec::new();
    let mut following: Vec<(&str, &Finding)> = Vec::new();
    for finding in findings {
        let Kind::Collateral {
            causes, through, ..
        } = &finding.kind
        else {
            continue;
        };
        if let Some(through) = through {
            following.push((through, finding));
            continue;
        }
        place(&mut costs, causes, finding);
    }
    for (through, finding) in following {
        let direct = costs.iter_mut().flat_map(|cost| &mut cost.direct);
        match direct
            .into_iter()
            .find(|direct| direct.finding.symbol == through)
        {
            Some(direct) => direct.followers.push(finding),
            None => place(&mut costs, causes_of(finding), finding),
        }
    }
    costs
}

fn causes_of(finding: &Finding) -> &[Rival] {
    match &finding.kind {
        Kind::Collateral { causes, .. } => causes,
        _ => &[],
    }
}

fn place<'r>(costs: &mut Vec<Cost<'r>>, causes: &[Rival], finding: &'r Finding) {
    let direct = Direct {
        finding,
        followers: Vec::new(),
    };
    match costs.iter_mut().find(|cost| cost.causes == causes) {
        Some(cost) => cost.direct.push(direct),
        None => costs.push(Cost {
            causes: causes.to_vec(),
            direct: vec![direct],
        }),
    }
}

impl Cost<'_> {
    /// Who takes how much: one sentence.
    pub fn sentence(&self) -> String {
        let options = match self.len() {
            1 => "1 option".to_owned(),
            number => format!("{number} options"),
        };
        let what = format!("{options} of the base that nobody asked to change");
        match self.causes.as_slice() {
            [] => format!("{what}, by whom is not known"),
            [cause] => format!("{}: CONFIG_{} changes {what}", cause.origin, cause.symbol),
            [first, ..] => {
                let names: Vec<String> = self
                    .causes
                    .iter()
                    .map(|cause| format!("CONFIG_{} at {}", cause.symbol, cause.origin))
                    .collect();
                format!("{}: {} change {what}", first.origin, names.join(" and "))
            }
        }
    }

    /// Each direct change with its reason and what goes with it, a line each; of the followers
    /// `most` are named.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        for direct in &self.direct {
            let Some(term) = direct.alone() else {
                lines.push(direct.line(most));
                continue;
            };
            let same = || self.direct.iter().filter(|d| d.alone() == Some(term));
            if same().count() < MANY {
                lines.push(direct.line(most));
            } else if !told.contains(&term) {
                told.push(term);
                let names = same().map(|direct| direct.finding.symbol.as_str());
                let mut line = together(term, names.collect(), most);
                if let Some(security) = same().find_map(Direct::security) {
                    line.push_str(&security);
                }
                lines.push(line);
            }
        }
        lines
    }

    /// The weight of the weightiest.
    #[must_use]
    pub fn severity(&self) -> Severity {
        let direct = self.direct.iter();
        let all = direct.flat_map(|d| d.followers.iter().chain([&d.finding]));
        let weights = all.map(|finding| finding.severity);
        weights.min().unwrap_or(Severity::Note)
    }

    /// Number of options.
    #[must_use]
    pub fn len(&self) -> usize {
        let each = self.direct.iter().map(|direct| 1 + direct.followers.len());
        each.sum()
    }

    /// Whether it costs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.direct.is_empty()
    }
}

/// So many options that need the same thing are told in one line.
const MANY: usize = 4;

fn together(term: &str, names: Vec<&str>, most: usize) -> String {
    format!(
        "{} options need {term}: {}",
        names.len(),
        listed(names, most)
    )
}

fn listed(mut names: Vec<&str>, most: usize) -> String {
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    let text = names.join(", ");
    if more > 0 {
        format!("{text} and {more} more")
    } else {
        text
    }
}

impl Direct<'_> {
    /// The term that it needs, where nothing follows from it.
    fn alone(&self) -> Option<&str> {
        let need = self.finding.why.as_ref()?.needs.first()?;
        self.followers.is_empty().then_some(need.term.as_str())
    }

    /// Why it is on the security list, where it is.
    fn security(&self) -> Option<String> {
        match &self.finding.kind {
            Kind::Collateral {
                security: Some(known),
                ..
            } => Some(format!(" (security: {})", known.text)),
            _ => None,
        }
    }

    fn line(&self, most: usize) -> String {
        let finding = self.finding;
        let why = finding.why.as_ref();
        let defined = why.and_then(|why| why.defined.first());
        let mut line = finding.symbol.clone();
        if let Some(prompt) = defined.and_then(|defined| defined.prompt.as_ref()) {
            line.push_str(" \"");
            line.push_str(prompt);
            line.push('"');
        }
        let (before, after) = (finding.before.as_deref(), finding.actual.as_deref());
        let (before, after) = (before.unwrap_or("absent"), after.unwrap_or("absent"));
        match why.and_then(|why| why.needs.first()) {
            Some(need) => {
                let site = defined.map_or(String::new(), |at| format!(" at {}", at.site));
                line.push_str(&[" goes: it needs ", &need.to_string(), &site].concat());
            }
            None => line.push_str(&[" goes from ", before, " to ", after].concat()),
        }
        line.extend(self.security());
        if !self.followers.is_empty() {
            let names = self.followers.iter().map(|f| f.symbol.as_str()).collect();
            line.push_str("; with it ");
            line.push_str(&listed(names, most));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kconfig::explain::Need;
    use crate::kconfig::{Origin, Site, Why};

    fn collateral(symbol: &str, cause: &str, through: Option<&str>) -> Finding {
        let cause = Rival {
            symbol: cause.to_owned(),
            origin: Origin {
                file: "f.config".into(),
                line: 3,
            },
        };
        let kind = Kind::Collateral {
            security: None,
            causes: vec![cause],
            through: through.map(str::to_owned),
            allowed: None,
        };
        let mut finding = Finding::new(Severity::Block, symbol, kind);
        finding.before = Some("m".to_owned());
        finding
    }

    #[test]
    fn what_goes_with_something_stands_behind_it() {
        let findings = [
            collateral("GVT", "RT", Some("I915")),
            collateral("I915", "RT", None),
            collateral("THP", "RT", None),
            collateral("NAT", "OTHER", None),
            collateral("PXP", "RT", Some("I915")),
        ];
        let costs = costs(findings.iter());
        assert_eq!(costs.len(), 2);
        assert_eq!(
            costs[0].sentence(),
            "f.config:3: CONFIG_RT changes 4 options of the base that nobody asked to change"
        );
        assert_eq!(
            costs[0].lines(1),
            [
                "I915 goes from m to absent; with it GVT and 1 more",
                "THP goes from m to absent"
            ]
        );
        assert_eq!(costs[1].lines(1), ["NAT goes from m to absent"]);
    }

    #[test]
    fn many_that_need_the_same_are_one_line() {
        let mut findings: Vec<Finding> = ["A", "B", "C", "D", "E"]
            .into_iter()
            .map(|symbol| collateral(symbol, "RT", None))
            .collect();
        for finding in &mut findings[..4] {
            let need = Need {
                term: "!RT [=y]".to_owned(),
                value: "n",
                site: Site {
                    file: "Kconfig".into(),
                    line: 1,
                },
                around: None,
                symbols: Vec::new(),
                probes: Vec::new(),
            };
            finding.why = Some(Why {
                needs: vec![need],
                ..Why::default()
            });
        }
        let costs = costs(findings.iter());
        assert_eq!(
            costs[0].lines(2),
            [
                "4 options need !RT [=y]: A, B and 2 more",
                "E goes from m to absent"
            ]
        );
    }

    #[test]
    fn a_follower_of_something_that_weighs_less_stands_alone() {
        let findings = [collateral("GVT", "RT", Some("I915"))];
        let costs = costs(findings.iter());
        assert_eq!(costs[0].len(), 1);
        assert!(costs[0].sentence().contains("1 option of"), "{costs:?}");
    }
}
