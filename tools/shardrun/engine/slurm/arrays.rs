//! How the tasks of a run are divided into job arrays. Slurm throttles each array by itself, so arrays share -j.

/// A job array of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct TaskArray {
    /// First task.
    pub first: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// Most tasks of this array that may run at once; 0 is no limit.
    pub throttle: usize,
    /// Position of the array that must end before this one starts.
    pub after: Option<usize>,
}

/// Divides tasks into arrays of at most `max_array`. With a limit, the arrays have nearly the same size and run side by side,
/// each with its part of the limit, so that none waits for the stragglers of another. If there are more arrays than `jobs`, they
/// form `jobs` chains, each of which runs one task at a time.
pub fn divide(tasks: usize, max_array: usize, jobs: usize) -> Vec<TaskArray> {
    if jobs == 0 {
        let array = |first| TaskArray { first, tasks: max_array.min(tasks - first), throttle: 0, after: None };
        return (0..tasks).step_by(max_array).map(array).collect();
    }
    let count = tasks.div_ceil(max_array);
    let chains = count.min(jobs);
    let array = |position: usize| {
        let first = tasks * position / count;
        let tasks = tasks * (position + 1) / count - first;
        let throttle = jobs / chains + usize::from(position % chains < jobs % chains);
        TaskArray { first, tasks, throttle, after: position.checked_sub(chains) }
    };
    (0..count).map(array).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tasks that may run at once, whatever has ended.
    fn most_at_once(arrays: &[TaskArray]) -> usize {
        arrays.iter().filter(|array| array.after.is_none()).map(|array| array.throttle).sum()
    }

    #[test]
    fn the_limit_holds_over_all_arrays_and_none_is_left_out() {
        for (tasks, max_array, jobs) in [(1, 1001, 64), (6, 4, 2), (2003, 1001, 5), (100_000, 1001, 64), (7, 2, 1)] {
            let arrays = divide(tasks, max_array, jobs);
            assert_eq!(most_at_once(&arrays), jobs, "{tasks} {max_array} {jobs}");
            let mut next = 0;
            for (position, array) in arrays.iter().enumerate() {
                assert_eq!(array.first, next);
                assert!(array.tasks > 0 && array.tasks <= max_array);
                assert!(array.after.is_none_or(|after| after < position && arrays[after].throttle == array.throttle));
                next += array.tasks;
            }
            assert_eq!(next, tasks);
        }
    }

    #[test]
    fn without_a_limit_all_arrays_start_at_once() {
        let arrays = divide(10, 4, 0);
        assert_eq!(arrays.iter().map(|array| array.tasks).collect::<Vec<_>>(), [4, 4, 2]);
        assert!(arrays.iter().all(|array| array.throttle == 0 && array.after.is_none()));
    }
}
