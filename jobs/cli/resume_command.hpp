#pragma once

#include <string>
#include <vector>

namespace cohort {

/// The command that continues the run of this process from its newest checkpoint, as a shell reads
/// it: the command of mpirun where it started this process, with its options. @param ranks  of the
/// job
[[nodiscard]] std::string resume_command(int ranks);

/// `words` with --resume at the end in place of --overwrite and an earlier --resume.
[[nodiscard]] std::vector<std::string> resuming(std::vector<std::string> words);

}  // namespace cohort
