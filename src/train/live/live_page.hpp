#pragma once

#include <string>
#include <string_view>

#include "cohort/core/clock.hpp"
#include "records/run/run_log.hpp"
#include "train/live/run_view.hpp"

namespace cohort {

/// OUT/live.html of a running job: a page that shows how it stands and loads itself again until
/// the job has ended. Follows the lines of metrics.jsonl as they are written; each new page
/// replaces the one before in a single step. A page that cannot be written is logged once.
class LivePage {
public:
    /// @param out  folder of the run  @param every_s  least time between two pages, above 0
    LivePage(const std::string& out, double every_s);

    /// Takes a line of metrics.jsonl, and writes the page when it is due, or the run has ended.
    void add(std::string_view line, Clock::Seconds now);

private:
    void write();

    std::string path_;
    double every_s_;
    RunLogReader reader_;
    RunViewer viewer_;
    double written_s_ = -1e300;  ///< time of the last page
    bool failed_ = false;
};

}  // namespace cohort
