#include <filesystem>
#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "core/scores.hpp"
#include "records/tensorboard/event_file.hpp"
#include "sim/result/observed.hpp"

namespace cohort {
void write_event_file(const std::string& folder, const SimulationResult& result, Task task) {
    make_own_folder(folder, FolderRule::kOwn);
    const std::string events = (std::filesystem::path(folder) / "tensorboard").string();
    for (const std::string& older : event_files(events)) {
        const OutputFolder place(events, FolderRule::kOwnReal);
        if (const int error = place.remove(std::filesystem::path(older).filename().string());
            error != 0) {
            fail_errno(older, "cannot be deleted", error);
        }
    }
    EventFile file(events, 0, {});
    for (const EvaluationPoint& test : result.evaluations) {
        std::vector<EventFile::Scalar> values;
        add_scores(values, "test", scores_of(task, test.accuracy.value_or(0), test.loss));
        if (test.average_loss) {
            add_scores(values, "test_average",
                       scores_of(task, test.average_accuracy.value_or(0), *test.average_loss));
        }
        file.scalars(test.samples_applied, test.virtual_s, values);
    }
    for (const SwitchReport& change : result.switches) {
        file.text(change.samples, change.train_seconds, "mode", describe(change));
    }
}

}  // namespace cohort
