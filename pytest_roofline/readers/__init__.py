"""Models on paper: configs, GGUF and safetensors files, each read into an `Architecture`."""
