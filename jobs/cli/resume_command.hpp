#pragma once

#include <string>
#include <vector>

namespace cohort {

/// The command that continues the run of this process from its newest checkpoint, as a shell reads
/// it (`starting`, `resuming`). @param ranks  of the job
[[nodiscard]] std::string resume_command(int ranks);

/// The words that start a job: mpirun's with all its options where mpirun is the parent of this
/// process; "srun -n RANKS" and the process's own words where Slurm's daemon is; else "mpirun -n
/// RANKS" and its own words, for one rank its own words alone.
/// @param parent  words that the parent process was started with; empty: they cannot be read
[[nodiscard]] std::vector<std::string> starting(std::vector<std::string> parent,
                                                std::vector<std::string> own, int ranks);

/// `words` with --resume at the end in place of --overwrite and an earlier --resume.
[[nodiscard]] std::vector<std::string> resuming(std::vector<std::string> words);

}  // namespace cohort
