//! Why a matrix has no plan. Its main type is [`PlanError`].

/// Why a matrix has no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// What `--select` says matches nothing. The text names what there is.
    #[error("{0}")]
    NothingSelected(String),
    /// The matrix has no cells.
    #[error("the matrix {origin} has no cells: {why}")]
    Empty {
        /// Where the matrix was read from.
        origin: String,
        /// What became of them.
        why: String,
    },
    /// Two combinations have one id.
    #[error("two cells have the id {id}: {first}, and {second}; give one of them a `name`")]
    DuplicateId {
        /// The id.
        id: String,
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// Two rules say different things about one cell.
    #[error("`expect` rules {first} and {second} of {origin} expect different things of {id}; narrow one of them down")]
    Conflict {
        /// Where the matrix was read from.
        origin: String,
        /// The cell.
        id: String,
        /// The number of the first rule, from 1.
        first: usize,
        /// The number of the second.
        second: usize,
    },
    /// Claims that no cell can show.
    #[error("{origin}: no cell is what these claims speak of: {claims}; `ctk-matrix plan` lists the cells")]
    ClaimWithoutCell {
        /// Where the matrix was read from.
        origin: String,
        /// Each with its line.
        claims: String,
    },
    /// More combinations than can be meant.
    #[error("the matrix {origin} has more than {most} combinations; name fewer toolkits, kernels or capabilities")]
    TooMany {
        /// Where the matrix was read from.
        origin: String,
        /// The most that are planned.
        most: usize,
    },
}

impl PlanError {
    /// Whether the matrix is sound and there is merely nothing to do, which has an exit status of its own.
    #[must_use]
    pub const fn nothing_to_do(&self) -> bool {
        match self {
            Self::NothingSelected(_) | Self::Empty { .. } => true,
            Self::DuplicateId { .. } | Self::Conflict { .. } | Self::ClaimWithoutCell { .. } | Self::TooMany { .. } => {
                false
            }
        }
    }
}
