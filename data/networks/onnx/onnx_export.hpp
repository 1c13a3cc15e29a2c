#pragma once

#include "cohort/core/output.hpp"
#include "data/networks/model_file.hpp"

namespace cohort {

/// Writes a trained network as an ONNX file (operator set 20): input "input" [N, sample], already
/// normalised, or tokens; output "output", the logits or outputs, in inference mode. Tensors have
/// the names that they have here, which are those of the file that the network came from. Errors:
/// FileError.
void write_onnx(const OutputFile& file, const ModelFile& model);

}  // namespace cohort
