//! The plan as `ctk-matrix plan --format json` prints it, schema 1. Its main function is [`to_json`].

use serde_json::{Value, json};

use crate::model::plan::{Excluded, Plan};

/// `{"schema", "cells": [{"id", "axes"}], "excluded": [{"axes", "reason", "link"?}]}`.
#[must_use]
pub fn to_json(plan: &Plan) -> Value {
    let cells: Vec<Value> = plan.cells.iter().map(|cell| json!({"id": cell.id, "axes": cell.axes})).collect();
    let excluded: Vec<Value> = plan.excluded.iter().map(excluded).collect();
    json!({"schema": 1, "cells": cells, "excluded": excluded})
}

fn excluded(excluded: &Excluded) -> Value {
    let mut value = json!({"axes": excluded.axes, "reason": excluded.reason});
    if let Some(link) = &excluded.link {
        value["link"] = json!(link);
    }
    value
}
