//! Which requests are broken, and how.

use serde::{Deserialize, Serialize};

/// Rules, tried in order: the first that matches a request and is due breaks it, all others pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Decides [`When::PerThousand`]: equal seeds and equal requests give equal faults.
    #[serde(default)]
    pub seed: u64,
    /// The rules, in order.
    #[serde(default)]
    pub rules: Vec<Rule>,
}

impl Plan {
    /// A plan with seed 0.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Plan {
        Plan { seed: 0, rules: rules.into_iter().collect() }
    }
}

/// Breaks the requests that fit every given member; a member left out fits all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The HTTP method, in capitals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The path without its query; a final `*` stands for any rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The MCP tool: the value of the header `Mcp-Name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Which of the fitting requests.
    #[serde(default)]
    pub when: When,
    /// What happens to them.
    pub fault: Fault,
}

impl Rule {
    /// Breaks every request.
    pub fn any(fault: Fault) -> Rule {
        Rule { method: None, path: None, tool: None, when: When::Always, fault }
    }

    /// Breaks the requests for `path`; a final `*` stands for any rest.
    pub fn path(path: impl Into<String>, fault: Fault) -> Rule {
        Rule { path: Some(path.into()), ..Rule::any(fault) }
    }

    /// Breaks the calls of one MCP tool.
    pub fn tool(tool: impl Into<String>, fault: Fault) -> Rule {
        Rule { tool: Some(tool.into()), ..Rule::any(fault) }
    }

    /// Only the `n`th fitting request, counted from 1.
    pub fn nth(self, n: u64) -> Rule {
        Rule { when: When::Nth(n), ..self }
    }

    /// Only the first `n` fitting requests.
    pub fn first(self, n: u64) -> Rule {
        Rule { when: When::First(n), ..self }
    }

    /// About `share` of 1,000 fitting requests, chosen by the seed of the plan.
    pub fn per_thousand(self, share: u16) -> Rule {
        Rule { when: When::PerThousand(share), ..self }
    }

    fn fits(&self, request: &Asked<'_>) -> bool {
        let path_fits = |pattern: &str| match pattern.strip_suffix('*') {
            Some(prefix) => request.path.starts_with(prefix),
            None => request.path == pattern,
        };
        self.method.as_deref().is_none_or(|method| method == request.method)
            && self.path.as_deref().is_none_or(path_fits)
            && self.tool.as_deref().is_none_or(|tool| Some(tool) == request.tool)
    }
}

/// Which of the requests that fit a [`Rule`] are broken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum When {
    /// All.
    #[default]
    Always,
    /// One, counted from 1.
    Nth(u64),
    /// The first so many.
    First(u64),
    /// About so many of 1,000, chosen by the seed of the plan.
    PerThousand(u16),
}

/// What happens to a request. Offsets are counted in bytes of the reply body, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Fault {
    /// The connection is reset before the node has a byte of the request, and the port refuses every further
    /// connection until it is opened again.
    Refuse,
    /// The connection is reset before the node has a byte of the request.
    ResetBefore,
    /// The node gets the head and `at` bytes of the body of the request; then both connections break. A body that is not
    /// longer goes through whole.
    ResetWithin {
        /// How many bytes of the request body the node still gets.
        at: u64,
    },
    /// The node gets the whole request, and its whole reply is read and dropped; then the connection is reset. Not for
    /// replies that never end.
    ResetAfter,
    /// The connection is closed after `at` bytes of the reply body.
    Truncate {
        /// How many bytes still arrive.
        at: u64,
    },
    /// The byte at offset `at` of the reply body is changed.
    Corrupt {
        /// Offset of the changed byte.
        at: u64,
        /// What it is XORed with; not 0. The default 255 turns ASCII into invalid UTF-8.
        #[serde(default = "all_bits")]
        xor: u8,
    },
    /// The request reaches the node `ms` milliseconds late.
    DelayRequest {
        /// Milliseconds.
        ms: u64,
    },
    /// The node answers in time; its reply goes on `ms` milliseconds late.
    DelayReply {
        /// Milliseconds.
        ms: u64,
    },
}

fn all_bits() -> u8 {
    u8::MAX
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) tool: Option<&'a str>,
}

/// A plan in use.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    plan: Plan,
    /// How many requests fitted each rule.
    fitted: Vec<u64>,
    draws: u64,
}

impl Matcher {
    pub(super) fn new(plan: Plan) -> Matcher {
        Matcher { fitted: vec![0; plan.rules.len()], plan, draws: 0 }
    }

    /// The fault of one request. Every rule that fits counts it, also behind the rule that decides.
    pub(super) fn decide(&mut self, request: &Asked<'_>) -> Option<Fault> {
        let mut decision = None;
        for (rule, fitted) in self.plan.rules.iter().zip(&mut self.fitted) {
            if !rule.fits(request) {
                continue;
            }
            *fitted += 1;
            let due = match rule.when {
                When::Always => true,
                When::Nth(n) => *fitted == n,
                When::First(n) => *fitted <= n,
                When::PerThousand(share) => {
                    self.draws += 1;
                    mix(self.plan.seed, self.draws) % 1_000 < u64::from(share)
                }
            };
            if due {
                decision = decision.or(Some(rule.fault));
            }
        }
        decision
    }
}

/// SplitMix64: the `draw`th number of the sequence that starts at `seed`.
fn mix(seed: u64, draw: u64) -> u64 {
    let mut z = seed.wrapping_add(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Asked<'_> = Asked { method: "POST", path: "/mcp", tool: Some("harness_turn") };
    const STAT: Asked<'_> = Asked { method: "POST", path: "/v1/exports/docs/stat", tool: None };

    /// Which of `n` equal requests (counted from 1) the rules break.
    fn broken(seed: u64, rules: Vec<Rule>, request: &Asked<'_>, n: u64) -> Vec<u64> {
        let mut matcher = Matcher::new(Plan { seed, rules });
        (1..=n).filter(|_| matcher.decide(request).is_some()).collect()
    }

    #[test]
    fn a_rule_fits_by_method_path_and_tool() {
        let fault = Fault::ResetBefore;
        for (rule, fits_turn, fits_stat) in [
            (Rule::any(fault), true, true),
            (Rule::path("/mcp", fault), true, false),
            (Rule::path("/v1/*", fault), false, true),
            (Rule::path("/v1", fault), false, false),
            (Rule::tool("harness_turn", fault), true, false),
            (Rule::tool("harness_create", fault), false, false),
            (Rule { method: Some("GET".into()), ..Rule::any(fault) }, false, false),
        ] {
            assert_eq!(rule.fits(&TURN), fits_turn, "{rule:?}");
            assert_eq!(rule.fits(&STAT), fits_stat, "{rule:?}");
        }
    }

    #[test]
    fn when_chooses_among_the_fitting_requests() {
        let rule = || Rule::any(Fault::ResetBefore);
        assert_eq!(broken(0, vec![rule()], &TURN, 3), [1, 2, 3]);
        assert_eq!(broken(0, vec![rule().nth(2)], &TURN, 4), [2]);
        assert_eq!(broken(0, vec![rule().first(2)], &TURN, 4), [1, 2]);
        assert_eq!(broken(0, vec![rule().nth(1), rule().nth(3)], &TURN, 4), [1, 3]);
    }

    #[test]
    fn equal_seeds_choose_equal_requests_and_others_do_not() {
        let share = |seed| broken(seed, vec![Rule::any(Fault::ResetBefore).per_thousand(300)], &TURN, 1_000);
        assert_eq!(share(1), share(1));
        assert_ne!(share(1), share(2));
        assert!((200..400).contains(&share(1).len()), "{}", share(1).len());
    }

    #[test]
    fn a_plan_is_written_as_json() {
        let json = r#"{"rules":[{"tool":"harness_turn","when":{"nth":1},"fault":{"kind":"reset-after"}},
            {"path":"/v1/*","fault":{"kind":"corrupt","at":3}}]}"#;
        let plan: Plan = serde_json::from_str(json).unwrap();
        assert_eq!(
            plan,
            Plan::new([
                Rule::tool("harness_turn", Fault::ResetAfter).nth(1),
                Rule::path("/v1/*", Fault::Corrupt { at: 3, xor: 255 })
            ])
        );
        assert_eq!(serde_json::from_str::<Plan>(&serde_json::to_string(&plan).unwrap()).unwrap(), plan);
    }

    #[test]
    fn a_misspelt_plan_is_refused() {
        for json in [
            r#"{"rule":[]}"#,
            r#"{"rules":[{"tol":"x","fault":{"kind":"refuse"}}]}"#,
            r#"{"rules":[{"fault":{"kind":"explode"}}]}"#,
            r#"{"rules":[{"fault":{"kind":"truncate"}}]}"#,
        ] {
            assert!(serde_json::from_str::<Plan>(json).is_err(), "{json}");
        }
    }
}
