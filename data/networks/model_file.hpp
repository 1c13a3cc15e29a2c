#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/data/vocabulary.hpp"
#include "cohort/model/graph.hpp"

namespace cohort {

/// A trained model: network, parameters and state by tensor name, and how its input was normalised.
struct ModelFile {
    Graph graph;
    std::vector<std::int64_t> sample_shape;
    std::int64_t classes = 0;        ///< of a regression 0
    bool tokens = false;             ///< samples are windows of tokens of text
    std::vector<float> mean;         ///< [sample_shape[0]], of the train set; the model takes
    std::vector<float> std;          ///< (sample - mean) / std, std > 0; both empty for tokens, or
                                     ///< not known
    std::vector<float> target_mean;  ///< [targets], of the train set; the model's outputs are
    std::vector<float> target_std;   ///< (target - mean) / std, std > 0; both empty for classes
    std::shared_ptr<const Vocabulary> vocabulary;  ///< of tokens; may be none
    std::vector<float> parameters;                 ///< flat, layout of the graph
    std::vector<float> state;

    [[nodiscard]] std::int64_t targets() const noexcept {
        return static_cast<std::int64_t>(target_mean.size());
    }
};

/// Writes `model.h5`. Errors: FileError.
void write_model(const OutputFile& file, const ModelFile& model, Hdf5Thread& thread);
/// Reads `model.h5`. Errors: FileError, also when tensors do not fit the network that the file
/// describes.
[[nodiscard]] ModelFile read_model(const std::string& path, Hdf5Thread& thread);

/// The network and the weights of a `model.h5`, or of an ONNX file. The latter has no vocabulary,
/// and says how samples are normalised and targets standardised only when write_onnx made it:
/// otherwise these are empty, and the network classifies. Errors: FileError.
[[nodiscard]] ModelFile read_trained(const std::string& path, Hdf5Thread& thread);

}  // namespace cohort
