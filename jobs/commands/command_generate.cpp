#include "cohort/train/generate.hpp"
#include "cohort/train/trainer.hpp"
#include "core/log.hpp"
#include "core/tensor/option_list.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

constexpr std::int64_t kMostGenerated = 1'000'000;

class GenerateCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("--model-file", options_.model_file,
                       "The model.h5 of a training run on text; required")
            ->type_name("FILE");
        app.add_option("--prompt", options_.prompt, "Text to go on from; empty: a new line")
            ->type_name("TEXT");
        value(app, "--tokens", options_.tokens, "Tokens to add",
              {.least = 0, .most = kMostGenerated});
        value(app, "--temperature", options_.temperature,
              "Below 1 likely tokens become likelier; 0: always the likeliest one",
              {.least = 0, .most = 1000});
        value(app, "--top-k", options_.top_k, "Draw from so many of the likeliest tokens; 0: all",
              {.least = 0, .most = kMostGenerated});
        value(app, "--seed", options_.seed, "Seed of the draws", kSeedLimits);
        each_device_option(options_, DeclareOptions{app}, "What computes");
        value(app, "--threads", threads_, "Threads that compute; 0: all cores", kThreadsLimits);
    }

    ExitCode run(const CommandContext& context) override {
        need(!options_.model_file.empty(), "cohort generate", "a model is needed",
             "--model-file FILE");
        options_.threads = threads_ > 0 ? threads_ : context.env.cores;
        options_.tuning_file = tuning_file(context.env);
        const GeneratedText generated = generate_text(options_);
        if (!generated.unknown.empty()) {
            log_warn("not in the vocabulary, read as <unk>: {}", generated.unknown);
        }
        print_line("{}", generated.text);
        return ExitCode::kDone;
    }

private:
    GenerateOptions options_;
    int threads_ = 0;
};

}  // namespace

void add_generate_command(const CommandGroup& all) {
    all.add<GenerateCommand>("generate", "Let a model that was trained on text write");
}

}  // namespace cohort
