
#include <cmath>
#include <nlohmann/json.hpp>

#include "cohort/core/error.hpp"
#include "cohort/train/trainer.hpp"
#include "core/scores.hpp"
#include "core/tensor/option_list.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

class EvalCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("--data", data_, "Dataset file (HDF5, see docs/data.md); required")
            ->type_name("FILE");
        app.add_option("--model-file", model_file_,
                       "The model.h5 of a training run, or FILE.onnx; required")
            ->type_name("FILE");
        value(app, "--group", group_, "Group of samples to evaluate on")
            ->check(one_of({"train", "test"}));
        each_device_option(on_, DeclareOptions{app}, "What computes");
        value(app, "--threads", threads_, "Threads that compute; 0: all cores", kThreadsLimits);
        value(app, "--batch", batch_, "Samples evaluated at once; changes the time, not the result",
              kBatchLimits);
        app.add_flag("--json", json_, "Print the result as one JSON object on one line");
    }

    ExitCode run(const CommandContext& context) override {
        need(!data_.empty() && !model_file_.empty(), "cohort eval", "two files are needed",
             "--data FILE --model-file FILE");
        const int threads = threads_ > 0 ? threads_ : context.env.cores;
        const EvaluationReport report =
            evaluate_model(model_file_, data_, group_, on_.device, threads, batch_, on_.precision,
                           tuning_file(context.env));
        if (!std::isfinite(report.loss)) {
            fail<NumericalError>({.where = model_file_,
                                  .what = "the loss on these samples is not finite",
                                  .expected = "parameters that are numbers",
                                  .hint = "the model of another run"});
        }
        if (json_) {
            nlohmann::ordered_json line{
                {"event", "evaluation"}, {"group", group_}, {"samples", report.samples}};
            for (const Score& score : scores_of(report.task, report.accuracy, report.loss)) {
                line[std::string(score.name)] = score.value;
            }
            line["seconds"] = report.seconds;
            print_line("{}", line.dump());
        } else {
            print_line("{}: {} samples, {}, {:.1f} s", group_, report.samples,
                       format_scores(report.task, report.accuracy, report.loss), report.seconds);
        }
        return ExitCode::kDone;
    }

private:
    std::string data_;
    std::string model_file_;
    std::string group_ = "test";
    struct {
        std::string device = "auto";
        PrecisionChoice precision = PrecisionChoice::kAuto;
    } on_;
    int threads_ = 0;
    std::int64_t batch_ = 256;
    bool json_ = false;
};

}  // namespace

void add_eval_command(const CommandGroup& all) {
    all.add<EvalCommand>("eval", "Accuracy or R2 and loss of a trained model on a dataset");
}

}  // namespace cohort
