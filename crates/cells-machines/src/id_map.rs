//! Values under numbers that are never used twice.

use std::collections::BTreeMap;
use std::fmt;

/// A map from numbers to values, ordered by number; every operation costs O(log n).
///
/// The tree inside is the same for every `T`, because browsers download each kind of tree as code of its own.
///
/// ```
/// use cells_machines::id_map::IdMap;
/// let mut map = IdMap::default();
/// map.insert(7, "seven");
/// map.insert(3, "three");
/// assert_eq!(map.remove(7), Some("seven"));
/// assert_eq!(map.into_values().collect::<Vec<_>>(), ["three"]);
/// ```
pub struct IdMap<T> {
    slot_of_id: BTreeMap<u64, u64>,
    slots: Vec<Option<T>>,
    free: Vec<u64>,
}

impl<T> IdMap<T> {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.slot_of_id.is_empty()
    }

    /// How many values it holds.
    pub fn len(&self) -> usize {
        self.slot_of_id.len()
    }

    /// Keeps `value` under `id`, and gives what was there.
    pub fn insert(&mut self, id: u64, value: T) -> Option<T> {
        if let Some(known) = self.get_mut(id) {
            return Some(std::mem::replace(known, value));
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                self.slots.len() as u64 - 1
            }
        };
        self.slots[slot as usize] = Some(value);
        self.slot_of_id.insert(id, slot);
        None
    }

    /// The value under `id`.
    pub fn get(&self, id: u64) -> Option<&T> {
        let slot = self.slot_of_id.get(&id)?;
        self.slots[*slot as usize].as_ref()
    }

    /// The value under `id`, to be changed.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let slot = self.slot_of_id.get(&id)?;
        self.slots[*slot as usize].as_mut()
    }

    /// Takes the value under `id` out.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let slot = self.slot_of_id.remove(&id)?;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    /// The numbers of the values that `is_wanted` names, in order.
    pub fn ids_where(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<u64> {
        self.slot_of_id.keys().copied().filter(|id| self.get(*id).is_some_and(&is_wanted)).collect()
    }

    /// The numbers, in order.
    #[cfg(test)]
    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> {
        self.slot_of_id.keys().copied()
    }

    /// The values, to be changed, in no particular order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// The values in the order of their numbers.
    pub fn into_values(self) -> impl Iterator<Item = T> {
        let mut slots = self.slots;
        self.slot_of_id.into_values().filter_map(move |slot| slots[slot as usize].take())
    }
}

impl<T> Default for IdMap<T> {
    fn default() -> Self {
        Self { slot_of_id: BTreeMap::new(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> fmt::Debug for IdMap<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdMap({} values)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_does_what_a_tree_does(steps in proptest::collection::vec((0..20_u64, any::<bool>()), 0..200)) {
            let (mut map, mut tree) = (IdMap::default(), BTreeMap::new());
            for (step, (id, adds)) in steps.into_iter().enumerate() {
                if adds {
                    prop_assert_eq!(map.insert(id, step), tree.insert(id, step));
                } else {
                    prop_assert_eq!(map.remove(id), tree.remove(&id));
                }
                prop_assert_eq!(map.len(), tree.len());
                prop_assert_eq!(map.get(id), tree.get(&id));
                prop_assert!(map.slots.len() <= 20, "slots are used again");
            }
            prop_assert_eq!(map.into_values().collect::<Vec<_>>(), tree.into_values().collect::<Vec<_>>());
        }
    }
}
