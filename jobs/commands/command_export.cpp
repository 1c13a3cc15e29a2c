#include "data/networks/model_file.hpp"
#include "data/networks/named_tensors.hpp"
#include "data/networks/onnx/onnx_export.hpp"
#include "jobs/cli/job_options.hpp"
#include "jobs/commands/commands.hpp"

namespace cohort {
namespace {

class ExportCommand final : public Command {
public:
    void declare(CLI::App& app) override {
        app.add_option("--model-file", model_file_,
                       "The model.h5 of a training run, or FILE.onnx; required")
            ->type_name("FILE");
        value(app, "--to", to_, "Format of the new file: a network with weights, or weights alone")
            ->check(one_of({"onnx", "safetensors"}));
        out_.declare(app, "--out", "File to write; required");
    }

    ExitCode run(const CommandContext& context) override {
        need(!model_file_.empty(), "cohort export", "a model is needed", "--model-file FILE");
        const OutputFile file = out_.check(context, {model_file_});
        Hdf5Thread hdf5;
        const ModelFile model = read_trained(model_file_, hdf5);
        if (to_ == "onnx") {
            write_onnx(file, model);
        } else {
            write_safetensors(file, model);
        }
        print_line("{}: {} with {} parameters", file.path, model.graph.name(),
                   model.graph.parameters().elements());
        return ExitCode::kDone;
    }

private:
    std::string model_file_;
    std::string to_ = "onnx";
    OutputOption out_;
};

}  // namespace

void add_export_command(const CommandGroup& all) {
    all.add<ExportCommand>("export", "Write a trained model as ONNX or safetensors");
}

}  // namespace cohort
