//! Stacks and `ctk.lock`: what they stand for now, and in what a run would not be the locked one. It is the part of
//! [`Provisioner`] that knows [`LockedStack`].

use std::collections::{BTreeMap, BTreeSet};

use super::provision::{Provisioner, failure};
use crate::model::lock::{Lock, LockedToolkit};
use crate::model::locked_stack::{LockedPackages, LockedStack};
use crate::model::plan::Plan;
use crate::model::stack::{Python, Stack};
use crate::model::version::Version;
use crate::model::wire::Failure;
use crate::toolkit::stack::{self, LockAsk, LockPlace};

/// A stack, and where its jobs are: on the machine's own user space, and in images.
struct Use<'a> {
    stack: &'a Stack,
    on_machine: bool,
    /// By reference.
    images: BTreeSet<String>,
}

/// The stacks of a plan that its jobs have a use for. Where a toolkit comes from is what the lock says.
fn uses<'a>(plan: &'a Plan, lock: &Lock) -> Vec<Use<'a>> {
    let mut uses: Vec<Use<'a>> =
        plan.stacks.iter().map(|stack| Use { stack, on_machine: false, images: BTreeSet::new() }).collect();
    for job in &plan.jobs {
        let python = job.cells.iter().any(|cell| plan.cells[*cell].axes.path.family.is_python());
        let Some(of) = job.stack.filter(|_| python) else { continue };
        let toolkit = &plan.toolkits[job.toolkit];
        let base = plan.stacks[of].base.as_ref().or(toolkit.base.as_ref());
        let image = match (lock.toolkits.get(&toolkit.name), base) {
            (Some(LockedToolkit::Image { image, .. }), _) => Some(image.reference.clone()),
            (_, base) => base.cloned(),
        };
        match image {
            Some(image) => drop(uses[of].images.insert(image)),
            None => uses[of].on_machine = true,
        }
    }
    uses.retain(|one| one.on_machine || !one.images.is_empty());
    uses
}

impl Provisioner {
    /// What the stacks of a plan stand for, whose toolkits are locked already: asked of pip, which installs nothing.
    pub async fn lock_stacks(
        &self,
        plan: &Plan,
        lock: &Lock,
        note: &(dyn Fn(String) + Send + Sync),
    ) -> Result<BTreeMap<String, LockedStack>, Failure> {
        let mut stacks = BTreeMap::new();
        for Use { stack, on_machine, images } in uses(plan, lock) {
            let mut locked = LockedStack::of(stack);
            if on_machine {
                locked.machine = Some(self.lock_stack(stack, LockPlace::Machine, note).await?);
            }
            if stack.python == Python::Host {
                for image in &images {
                    note(format!("stack {}: its packages in image {image} are held by the image's digest", stack.name));
                }
            } else if !images.is_empty() {
                let glibc = self.oldest_glibc(stack, &images, note).await?;
                locked.image = Some(self.lock_stack(stack, LockPlace::Image { glibc }, note).await?);
            }
            stacks.insert(stack.name.clone(), locked);
        }
        Ok(stacks)
    }

    async fn lock_stack(
        &self,
        stack: &Stack,
        place: LockPlace,
        note: &(dyn Fn(String) + Send + Sync),
    ) -> Result<LockedPackages, Failure> {
        note(match stack.python {
            Python::Host => format!("stack {}: looking at what the machine's Python has", stack.name),
            Python::Version(_) => format!("stack {}: asking pip what its packages become", stack.name),
        });
        let ask = LockAsk { stack, place, cache: &self.cache, pip: &self.pip, note };
        stack::lock(&ask).await.map_err(|error| {
            let detail = error.detail().map(ToOwned::to_owned);
            Failure { detail, ..failure(format!("stack {}: {error}", stack.name)) }
        })
    }

    /// The oldest C library of a stack's images, for which wheels are good in all of them; none where one is not known.
    async fn oldest_glibc(
        &self,
        stack: &Stack,
        images: &BTreeSet<String>,
        note: &(dyn Fn(String) + Send + Sync),
    ) -> Result<Option<Version>, Failure> {
        let mut known = Vec::new();
        for image in images {
            let facts = self.look(image).await?;
            if facts.is_none() {
                note(format!(
                    "stack {}: image {image} is not on this machine: wheels are chosen that fit every C library",
                    stack.name
                ));
            }
            known.push(facts.and_then(|facts| facts.glibc).and_then(|glibc| glibc.parse::<Version>().ok()));
        }
        Ok(oldest(known))
    }

    /// Everything in which the stacks of a plan are not what the lock holds, one line each.
    pub async fn stack_drift(&self, plan: &Plan) -> Vec<String> {
        let Some(lock) = &self.lock else { return Vec::new() };
        let mut drift = Vec::new();
        for Use { stack, on_machine, images } in uses(plan, lock) {
            let mut say = |line: String| drift.push(format!("stack {}: {line}", stack.name));
            let Some(held) = lock.stacks.get(&stack.name) else {
                say("it is not in ctk.lock".into());
                continue;
            };
            let asks = held.asks(stack);
            if !asks.is_empty() {
                asks.into_iter().for_each(say);
                continue;
            }
            if on_machine {
                match (held.at(false), &stack.python) {
                    (Err(line), _) => say(line),
                    (Ok(held), Python::Host) => match stack::installed().await {
                        Ok(found) => held.installed(&found).into_iter().for_each(&mut say),
                        Err(error) => say(error.to_string()),
                    },
                    (Ok(_), Python::Version(_)) => {}
                }
            }
            if let (false, Python::Version(_), Err(line)) = (images.is_empty(), &stack.python, held.at(true)) {
                say(line);
            }
        }
        drift
    }
}

/// The oldest of what all are known to have; a single one that is not known may be older than the others.
fn oldest(versions: Vec<Option<Version>>) -> Option<Version> {
    versions.into_iter().collect::<Option<Vec<Version>>>()?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_image_that_is_not_known_may_have_the_oldest_c_library() {
        let (jammy, noble) = (Some(Version::new(2, 35)), Some(Version::new(2, 39)));
        assert_eq!(oldest(vec![noble, jammy]), jammy);
        assert_eq!(oldest(vec![noble, None]), None);
        assert_eq!(oldest(vec![None, noble]), None);
    }
}
