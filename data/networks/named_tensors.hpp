#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cohort/core/output.hpp"
#include "cohort/data/vocabulary.hpp"
#include "cohort/model/graph.hpp"

namespace cohort {

struct ModelFile;

/// A tensor of a file of weights, row-major.
struct FileTensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};
using NamedTensors = std::map<std::string, FileTensor>;

/// The tensors of a .safetensors file. Errors: FileError for a file that is damaged or holds
/// tensors of other types than F32 (whole numbers, such as counters of batches, are left out).
[[nodiscard]] NamedTensors read_safetensors(const std::string& path);
/// What PyTorch calls a tensor.
struct PytorchName {
    std::string name;
    std::string second;  ///< a tensor that is added to it, zero when it is written; empty: none
};
/// The tensors of a network that have other names there, those of LSTM layers: layer "rnn.l1" is
/// layer 1 of a module "rnn", layer "rnn" its only one.
[[nodiscard]] std::map<std::string, PytorchName> names_of_pytorch(const Graph& graph);

/// Writes parameters and state as a .safetensors file, by the names of a PyTorch module. Errors:
/// FileError.
void write_safetensors(const OutputFile& file, const ModelFile& model);
/// The parameters and the state of a model.h5. Errors: FileError; also for a model of text whose
/// vocabulary is not `vocabulary`, unless that is null: the same tokens are other words there.
[[nodiscard]] NamedTensors read_model_tensors(const std::string& path,
                                              const Vocabulary* vocabulary);

/// Lets `graph` start from the tensors of a file, matched by name; what PyTorch calls otherwise is
/// known: a prefix "module.", "model." or "_orig_mod." of all names, none of which the network has,
/// and the weights of an LSTM.
/// @param news  as make_graph has it. Errors: FileError naming the tensor whose shape differs, or
/// when no name is known.
void start_from_tensors(Graph& graph, NamedTensors tensors, const std::string& where,
                        std::vector<std::string>* news);

}  // namespace cohort
