#pragma once

#include <string>

namespace cohort {

/// Begins each line of this process's log from now on: "job 'a': "; empty: nothing does.
void set_log_name(std::string name);

}  // namespace cohort
