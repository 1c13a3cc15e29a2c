#pragma once

#include <optional>
#include <vector>

#include "report/page/report_tables.hpp"
#include "report/run/run_page.hpp"

namespace cohort {

/// A row for each run.
[[nodiscard]] ReportTable runs_table(const std::vector<RunHistory>& runs,
                                     const std::optional<PageLevel>& level);
/// A row for each change of mode, with its reason; no rows: there was none.
[[nodiscard]] ReportTable changes_table(const std::vector<RunHistory>& runs);
/// A row for each worker and cause, the costliest first; no rows: nobody was slow for long.
[[nodiscard]] ReportTable slow_table(const std::vector<RunHistory>& runs);
/// Returned samples, losses, checkpoints, dropped batches.
[[nodiscard]] ReportTable faults_table(const std::vector<RunHistory>& runs);

}  // namespace cohort
